import { expect, test } from "vitest";
import { widest } from "./band";
import { stretches } from "./plot";

test("a band is that of the least certain source, and absent where nothing is estimated", () => {
  const grid = [0, 5, 10];
  expect(widest(grid, [[0.1, null, 0.2], [0.3, null, null]])).toEqual({ grid, half: [0.3 * 1.96, null, 0.2 * 1.96] });
  expect(widest(grid, [[null, null, null]])).toBeNull();
  expect(widest(grid, [])).toBeNull();
});

test("a band has a hole where the line has one", () => {
  expect(stretches([1, 2, null, 4, 5], [0.1, 0.1, 0.1, null, 0.1])).toEqual([[0, 1], [4, 4]]);
});
