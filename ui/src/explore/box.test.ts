import { expect, test } from "vitest";
import type { AnomalyBox } from "../api/types";
import { axisOf, boxesCSV, bySeries, niceStep, readingsPerValue } from "./box";

test("steps are round", () => {
  expect([0.03, 1, 1.1, 3, 70].map(niceStep)).toEqual([0.05, 1, 2, 5, 100]);
});

test("an axis begins at zero unless values are below it", () => {
  const a = axisOf([2, 9], 100);
  expect(a.ticks[0]).toBe(0);
  expect(a.at(0)).toBe(0);
  expect(a.at(9)).toBeLessThanOrEqual(100);
  expect(axisOf([-5, 5], 100).ticks).toContain(0);
  expect(axisOf([-5, 5], 100).at(-5)).toBeGreaterThanOrEqual(0);
});

test("an axis of values that differ a hundredfold is logarithmic", () => {
  const a = axisOf([1e-6, 1e-3], 90);
  expect(a.log).toBe(true);
  expect(a.at(1e-5)).toBeCloseTo(30);
  expect(axisOf([0, 1000], 90).log).toBe(false);
});

test("an axis of one value is one", () => {
  for (const v of [0, 3, -3]) expect(Number.isFinite(axisOf([v], 100).at(v)), String(v)).toBe(true);
});

const box = (name: string, from: string): AnomalyBox => ({ labels: { name }, window: { from, to: from }, n: 3, min: 1, low: 1, q1: 1, median: 2, q3: 3, high: 3, max: 3, mean: 2, outliers: null });

test("boxes stand by series in the order of time", () => {
  const list = [box("a", "2"), box("b", "1"), box("a", "1")];
  expect(bySeries(list, (l) => l["name"] ?? "").map((s) => [s.name, s.boxes.map((b) => b.window.from)])).toEqual([
    ["a", ["1", "2"]],
    ["b", ["1"]],
  ]);
  expect(boxesCSV([box('q"', "1")], (l) => l["name"] ?? "").split("\n")[1]).toBe('"q""",1,1,3,1,1,1,2,3,3,3,2');
});

test("boxes of a day look at some of the readings, those of minutes at all", () => {
  const day = { ...box("a", "2026-11-21T00:00:00Z"), n: 240 };
  day.window = { from: day.window.from, to: "2026-11-22T00:00:00Z" };
  expect(readingsPerValue([day], 5)).toBe(72);
  expect(readingsPerValue([{ ...day, n: 17_000 }], 5)).toBe(1);
  expect(readingsPerValue([], 5)).toBe(1);
});
