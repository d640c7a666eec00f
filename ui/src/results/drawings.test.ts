import { expect, test } from "vitest";
import { drawingsCall } from "./drawings";

test("drawings are asked for of one result, or of several side by side", () => {
  expect(drawingsCall("results/a%2Fb", "threads=1", "total_mips")).toBe("results/a%2Fb/drawings?case=threads%3D1&metric=total_mips");
  expect(drawingsCall("comparisons?id=a&id=b", "", "x")).toBe("comparisons/drawings?id=a&id=b&case=&metric=x");
});
