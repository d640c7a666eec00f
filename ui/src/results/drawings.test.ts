import { expect, test } from "vitest";
import { viewCall } from "./drawings";

test("drawings and tables are of one result, or of several side by side", () => {
  expect(viewCall("results/a%2Fb", "drawings", "threads=1", "total_mips")).toBe("results/a%2Fb/drawings?case=threads%3D1&metric=total_mips");
  expect(viewCall("comparisons?id=a&id=b", "tables", "", "x")).toBe("comparisons/tables?id=a&id=b&case=&metric=x");
});
