import { expect, test } from "vitest";
import { axisOf, niceStep, spacings, stepOf } from "./axis";

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

test("numbers of bytes are powers of two, others not", () => {
  expect([stepOf(300, "bytes"), stepOf(300, "bytes/s"), stepOf(300, "1/s")]).toEqual([512, 512, 500]);
});

test("distances of times grow and divide the next unit", () => {
  expect(spacings.toSorted((a, b) => a - b)).toEqual(spacings);
  expect(spacings.filter((s) => s < 60).every((s) => 60 % s === 0)).toBe(true);
});
