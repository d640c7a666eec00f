import { expect, test } from "vitest";
import { svgOf, windowWords } from "./picture";

const at = Date.parse("2026-05-02T15:00:00Z") / 1000;
const grid = [at, at + 5, at + 10, at + 15];
const series = [
  { name: 'a "quoted" <name>', values: [1, 2, null, 4] },
  { name: "all the others together", values: [0.5, 0.5, 0.5, 0.5] },
];
const drawn = (o: Partial<Parameters<typeof svgOf>[0]> = {}) =>
  svgOf({ title: "Calls & more", machine: "vm-1", grid, from: at, to: at + 15, series, strokes: new Map(), folded: 7, unit: "1/s", stack: false, band: null, warnings: [], token: (name) => name, ...o }).text;

test("a picture says what, where, when, how sure, and names every line", () => {
  const svg = drawn({ band: { grid, half: [0.1, 0.2, null, 0.1] }, warnings: ["source syscalls counted 20 %"] });
  for (const part of ["Calls &amp; more", "vm-1, ", "UTC", "estimates up to ± 20 % (95 %)", "a &quot;quoted&quot; &lt;name&gt;: 4/s", "7 others: 0.5/s", "source syscalls counted 20 %"]) expect(svg).toContain(part);
  expect(svg).not.toContain("<name>");
});

test("a gap stays one, and a single value is a point", () => {
  const lines = (svg: string) => [...svg.matchAll(/<path d="M[^"]*" fill="none"/g)].length;
  // The first line has a run of two and a single value; the second is whole.
  expect([lines(drawn()), [...drawn().matchAll(/<circle/g)].length]).toEqual([2, 1]);
});

test("the sums of a stack have no band", () => {
  expect(drawn({ stack: true, band: { grid, half: [0.1, 0.2, 0.2, 0.1] } })).not.toContain("±");
});

test("a window names its day once, and both where they differ", () => {
  expect(windowWords(at, at + 15)).toMatch(/^\d+ May 2026, \d\d:\d\d:\d\d to \d\d:\d\d:\d\d \(UTC.*\)$/);
  expect(windowWords(at, at + 86400)).toMatch(/^\d+ May 2026, .* to \d+ May 2026, /);
});
