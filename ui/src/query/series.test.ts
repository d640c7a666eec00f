import { expect, test } from "vitest";
import { align, fold, latest, mean, numberOf, observed, rank, toCSV } from "./series";

const grid = [100, 105, 110, 115, 120];

test("a missing sample is a gap", () => {
  const row = { metric: {}, values: [[100, "1"], [110, "3"], [115, "NaN"], [900, "7"]] as [number, string][] };
  expect(align(grid, row)).toEqual([1, null, 3, null, null]);
});

test("top k and the rest add up", () => {
  const rows = [["c", 3], ["a", 9], ["b", 3], ["d", 1], ["e", 1], ["idle", 0]].map(([name, v]) => ({ metric: { process: String(name) }, value: [0, String(v)] as [number, string] }));
  const ranking = rank(rows, "process");
  expect(ranking.map((r) => r.name)).toEqual(["a", "b", "c", "d", "e"]);
  const { top, rest, restCount } = fold(ranking, 2);
  expect([top, rest, restCount]).toEqual([["a", "b"], 5, 3]);
  expect(top.reduce((s, n) => s + ranking.find((r) => r.name === n)!.total, rest)).toBe(17);
  expect(fold(ranking, 4)).toEqual({ top: ["a", "b", "c", "d", "e"], rest: 0, restCount: 0 });
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
