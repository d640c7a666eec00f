import { expect, test } from "vitest";
import type { AnomalyBox } from "../api/types";
import { boxesCSV, bySeries, readingsPerValue } from "./box";

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
