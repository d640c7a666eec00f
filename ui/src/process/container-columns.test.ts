import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { tableQueries } from "./container-columns";

// TestContainerTable in internal/store/storetest evaluates the queries of this file.
test("the table asks what the engine is tested to answer", () => {
  const tested = JSON.parse(readFileSync(new URL("../../../internal/store/storetest/testdata/containers.json", import.meta.url), "utf8")) as { query: string }[];
  expect(tableQueries({ from: 0, to: 60, step: 5, live: true, started: null, begin: 0, job: "teescope", instance: "vm1", interval: 5 })).toEqual(tested.map((t) => t.query));
});
