import { expect, test } from "vitest";
import { bandsOf, binsOf, binsOfBuckets } from "./bins";
import { exportText, freeName, importText, moved, withPanel, withPanels } from "./document";

const panel = (title: string) => ({ title, query: "up", unit: "", kind: "graph" as const });
const list = [
  { name: "a", panels: [panel("1"), panel("2")] },
  { name: "b", panels: [panel("3")] },
];

test("a panel moves by one place and not beyond the ends", () => {
  const titles = (i: number, by: -1 | 1) => moved([panel("1"), panel("2"), panel("3")], i, by).map((p) => p.title).join("");
  expect([titles(0, 1), titles(2, -1), titles(0, -1), titles(2, 1), titles(9, 1)]).toEqual(["213", "132", "123", "123", "123"]);
});

test("a dashboard without panels is gone", () => {
  expect(withPanels(list, "b", () => []).map((d) => d.name)).toEqual(["a"]);
  expect(withPanels(list, "a", (p) => p.slice(1))[0]!.panels).toEqual([panel("2")]);
  expect(withPanels(list, "none", () => [])).toEqual(list);
});

test("a panel is written in place of the old one, and is not lost where that or its dashboard is gone", () => {
  const titles = (name: string, old: string | null) => withPanel(list, name, old === null ? null : panel(old), panel("x")).map((d) => [d.name, d.panels!.map((p) => p.title).join("")]);
  expect(titles("a", "2")).toEqual([["a", "1x"], ["b", "3"]]);
  expect(titles("a", null)).toEqual([["a", "12x"], ["b", "3"]]);
  expect(titles("a", "3")).toEqual([["a", "12x"], ["b", "3"]]);
  expect(titles("c", "1")).toEqual([["a", "12"], ["b", "3"], ["c", "x"]]);
});

test("a name that is taken gets a number", () => {
  expect(freeName("a", ["b"])).toBe("a");
  expect(freeName("a", ["a", "a 2"])).toBe("a 3");
});

test("what is exported can be imported", () => expect(importText(exportText(list))).toEqual(list));

test.each([
  ["{", "not JSON"],
  ["[]", "no list"],
  ['{"dashboards": 1}', "no list"],
  ['{"dashboards": [1]}', "dashboards[0] is not an object"],
  ['{"dashboards": [{"name": "x"}]}', "dashboards[0].panels is not a list"],
  ['{"dashboards": [{"name": 1, "panels": []}]}', "dashboards[0].name is not text"],
  ['{"dashboards": [{"name": "x", "panels": [{"title": "t", "query": "up", "kind": "pie"}]}]}', "dashboards[0].panels[0].kind is pie"],
  ['{"dashboards": [{"name": "x", "panels": [{"title": "t", "query": "up", "kind": "graph", "unit": "furlong"}]}]}', "unit is furlong"],
  ['{"dashboards": [{"name": "x", "panels": [{"title": "t", "query": "up", "kind": "constructor"}]}]}', "kind is constructor"],
])("import of %s says %s", (text, says) => expect(() => importText(text)).toThrow(says));

test("bins are round, hold every value, and one value is one bin", () => {
  const bins = binsOf([0.1, 0.12, 0.5, 0.99, 1]);
  expect(bins.reduce((n, b) => n + b.count, 0)).toBe(5);
  expect(bins[0]!.from).toBeLessThanOrEqual(0.1);
  expect(bins.at(-1)!.to).toBeGreaterThanOrEqual(1);
  expect(binsOf([-3, 4]).reduce((n, b) => n + b.count, 0)).toBe(2);
  expect(binsOf([7, 7])).toEqual([{ from: 7, to: 7, count: 2 }]);
  expect(binsOf([])).toEqual([]);
  expect(binsOf(new Array<number>(500_000).fill(3))).toEqual([{ from: 3, to: 3, count: 500_000 }]);
});

test("buckets are counted one by one, over all their other labels", () => {
  const rows = [["0.1", 0], ["1", 4], ["2", 4], ["+Inf", 5], ["1", 1], ["2", 1], ["+Inf", 1]].map(([le, v]) => ({ metric: { le: String(le) }, value: [0, String(v)] as [number, string] }));
  expect(binsOfBuckets(rows)).toEqual([
    { from: 0.1, to: 1, count: 5 },
    { from: 1, to: 2, count: 0 },
    { from: 2, to: Infinity, count: 1 },
  ]);
  expect(binsOfBuckets([{ metric: {}, value: [0, "1"] }])).toBe(null);
});

test("buckets over time are told apart by their bound alone", () => {
  const rows = [
    { le: "1", values: [4, null, 1] },
    { le: "+Inf", values: [6, 3, 1] },
    { le: "1", values: [2, 1, null] },
    { le: "+Inf", values: [2, 1, null] },
  ];
  expect(bandsOf(rows)).toEqual([
    { to: Infinity, values: [2, 3, 0] },
    { to: 1, values: [6, 1, 1] },
  ]);
});
