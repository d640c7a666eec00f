import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { others } from "../query/promql";
import { heatSteps } from "./heat";
import { colourOf, colours, strokes } from "./palette";

test("a name keeps its colour whatever else is drawn", () => {
  expect([colourOf("redis-server"), colourOf("nginx")]).toEqual([0, 7]);
  expect(strokes(["nginx", "redis-server"]).get("nginx")?.colour).toBe(strokes(["nginx"]).get("nginx")?.colour);
});

test("names of one colour differ in their dashes, in any order", () => {
  const names = Array.from({ length: 200 }, (_, i) => `p${i}`).filter((n) => colourOf(n) === colourOf("p0")).slice(0, 5);
  const a = strokes(names);
  expect(new Set(names.map((n) => a.get(n)?.dash.join())).size).toBe(5);
  expect(strokes(names.toReversed())).toEqual(a);
  expect(strokes([others]).get(others)?.colour).toBe("--series-rest");
});

test("the lines of a fixed chart all differ in colour", () => {
  expect(new Set([...strokes(["a", "b", "c", "d", "e", "f", "g", "h"], true).values()].map((s) => s.colour)).size).toBe(colours);
});

test("a fixed chart of more lines than colours draws no two alike", () => {
  const names = Array.from({ length: colours + 3 }, (_, i) => `line ${i}`);
  expect(new Set([...strokes(names, true).values()].map((s) => `${s.colour} ${s.dash}`)).size).toBe(names.length);
});

// From here on: the colours themselves, read from the style sheet.

type RGB = [number, number, number];
const css = readFileSync(new URL("../tokens.css", import.meta.url), "utf8");
function theme(name: string): (token: string) => RGB {
  const block = css.slice(css.indexOf(`"${name}"`)).split("}")[0]!;
  return (token) => {
    const hex = block.match(new RegExp(`--${token}: #([0-9a-f]{6})`))?.[1];
    if (!hex) throw new Error(`no ${token} in ${name}`);
    return [0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16) / 255) as RGB;
  };
}
const linear = (c: RGB) => c.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)) as RGB;
function contrast(a: RGB, b: RGB): number {
  const [x, y] = [a, b].map((c) => { const [r, g, bl] = linear(c); return 0.2126 * r + 0.7152 * g + 0.0722 * bl + 0.05; }) as [number, number];
  return Math.max(x, y) / Math.min(x, y);
}

// Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
const blindness: Record<string, number[][]> = {
  none: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
/** Oklab (Ottosson 2020), in which distances match perceived differences. */
function oklab([r, g, b]: RGB): RGB {
  const [l, m, s] = [0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b, 0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b, 0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b].map((v) => Math.cbrt(Math.max(0, v))) as RGB;
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

for (const name of ["light", "dark"]) {
  const token = theme(name);
  const surfaces = ["surface", "ground", "sunken"];

  test(`${name}: text has a contrast of 4.5 on every surface, lines of 3`, () => {
    for (const text of ["text", "text-dim", "accent", "good", "warn", "bad"]) for (const s of surfaces) expect(contrast(token(text), token(s)), `${text} on ${s}`).toBeGreaterThanOrEqual(4.5);
    for (const [t, s] of [["good", "good-soft"], ["warn", "warn-soft"], ["bad", "bad-soft"], ["accent", "accent-soft"]] as const) expect(contrast(token(t), token(s)), `${t} on ${s}`).toBeGreaterThanOrEqual(4.5);
    for (let i = 0; i < colours; i++) expect(contrast(token(`series-${i}`), token("surface")), `series-${i}`).toBeGreaterThanOrEqual(3);
  });

  test(`${name}: the steps of heat go one way in lightness and bear their text`, () => {
    const steps = Array.from({ length: heatSteps }, (_, i) => token(`heat-${i}`));
    const lightness = steps.map((c) => oklab(linear(c))[0]);
    const way = Math.sign(lightness.at(-1)! - lightness[0]!);
    for (let i = 1; i < heatSteps; i++) expect((lightness[i]! - lightness[i - 1]!) * way, `heat-${i - 1} to heat-${i}`).toBeGreaterThan(0.03);
    steps.forEach((c, i) => expect(contrast(token(i < 5 ? "heat-ink" : "heat-ink-strong"), c), `heat-${i}`).toBeGreaterThanOrEqual(4.5));
  });

  test.each(Object.keys(blindness))(`${name}: the eight colours can be told apart with %s`, (kind) => {
    const seen = Array.from({ length: colours }, (_, i) => {
      const c = linear(token(`series-${i}`));
      return oklab(blindness[kind]!.map((row) => Math.min(1, Math.max(0, row[0]! * c[0] + row[1]! * c[1] + row[2]! * c[2]))) as RGB);
    });
    for (let i = 0; i < colours; i++)
      for (let j = 0; j < i; j++) {
        const d = Math.hypot(...seen[i]!.map((v, k) => v - seen[j]![k]!));
        // 0.02 is just noticeable side by side; a thin line needs more.
        expect(d, `series-${j} and series-${i}`).toBeGreaterThan(kind === "none" ? 0.15 : 0.08);
      }
  });
}
