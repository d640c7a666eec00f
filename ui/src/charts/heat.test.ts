import { expect, test } from "vitest";
import { gridCSV, gridOfPairs, heatScale, heatSteps } from "./heat";

test("steps are of equal ratio and hold every value", () => {
  const s = heatScale([1, 10, 100, 256, null]);
  expect(s.step(1)).toBe(0);
  expect(s.step(256)).toBe(heatSteps - 1);
  expect(s.bounds).toHaveLength(heatSteps - 1);
  expect(s.bounds[3]).toBeCloseTo(16);
  expect([s.step(15.9), s.step(16.1)]).toEqual([3, 4]);
  expect([s.step(0), s.step(null), s.step(-3)]).toEqual([null, null, null]);
});

test("four orders of magnitude are told apart, what is below is in the lowest step", () => {
  const s = heatScale([1e-9, 1e6]);
  expect(s.step(1e-9)).toBe(0);
  expect(s.bounds[0]).toBeGreaterThan(100);
});

test("one value, or none, is no reason to divide by zero", () => {
  expect(heatScale([5]).step(5)).toBe(heatSteps - 1);
  expect(heatScale([0, null]).step(0)).toBe(null);
});

test("the largest rows and columns stay, the others are counted", () => {
  const pairs = [
    { row: "a", column: "x", value: 1 },
    { row: "b", column: "x", value: 5 },
    { row: "b", column: "y", value: 2 },
    { row: "c", column: "z", value: 0.5 },
  ];
  const g = gridOfPairs(pairs, 2, 2);
  expect(g).toEqual({ rows: ["b", "a"], columns: ["x", "y"], values: [[5, 2], [1, null]], rowsLeft: 1, columnsLeft: 1 });
  expect(gridCSV("who", { rows: ['a,"b"'], columns: ["x"], values: [[null]] })).toBe('who,x\n"a,""b""",\n');
});
