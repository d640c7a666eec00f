import { expect, test } from "vitest";
import { latest, mean, numberOf, observed, rank, stacked, toCSV } from "./series";

const grid = [100, 105, 110, 115, 120];

test("names are ranked by their totals, those without are left out", () => {
  const rows = [["c", 3], ["a", 9], ["b", 3], ["idle", 0], ["", 7]].map(([name, v]) => ({ metric: { process: String(name) }, value: [0, String(v)] as [number, string] }));
  expect(rank(rows, "process").map((r) => r.name)).toEqual(["a", "b", "c"]);
});

test("averages are over the time that was watched", () => {
  const w = { from: 100, to: 120, started: null };
  expect(observed(grid, [[1, 1, 1, 1, 1]], w)).toBe(20);
  expect(observed(grid, [[null, null, 1, 1, 1]], { ...w, started: 108 })).toBe(12);
  expect(observed(grid, [[1, null, null, 1, 1]], w)).toBe(12);
  expect(observed(grid, [], w)).toBe(20);
});

test("last and mean skip gaps and know no zero for nothing", () => {
  expect([latest({ name: "", values: [1, 2, null] }), mean({ name: "", values: [1, null, 3] })]).toEqual([2, 2]);
  expect([latest({ name: "", values: [null] }), mean({ name: "", values: [] })]).toEqual([null, null]);
});

test("CSV quotes names and leaves gaps empty", () => {
  expect(toCSV([0, 5], [{ name: 'a,"b"', values: [1.5, null] }])).toBe('time,"a,""b"""\n1970-01-01T00:00:00.000Z,1.5\n1970-01-01T00:00:05.000Z,\n');
});

test("infinite values are numbers", () => {
  expect(["+Inf", "-Inf", "1.5", "NaN"].map(numberOf)).toEqual([Infinity, -Infinity, 1.5, NaN]);
});

test("series stand on each other, what is missing in one adds nothing, and a gap in all stays one", () => {
  expect(stacked([[1, 2, null, null], [10, null, null, 40]])).toEqual([[1, 2, null, 0], [11, 2, null, 40]]);
  expect(stacked([])).toEqual([]);
});
