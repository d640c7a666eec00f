import { expect, test } from "vitest";
import { withQuery } from "./history";

test("a query that is run again moves to the front, and the list stays short", () => {
  expect(withQuery(["a", "b", "c"], "b")).toEqual(["b", "a", "c"]);
  const long = Array.from({ length: 40 }, (_, i) => String(i));
  expect(withQuery(long, "new").length).toBe(30);
});
