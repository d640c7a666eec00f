import { expect, test } from "vitest";
import { placeOf, ratioAxis, ticksOf, valueAxis } from "./axis";

test("a ratio axis holds 1, the margin and every value", () => {
  const a = ratioAxis([26.5, 72.9, Number.NaN], 0.03);
  expect(a.lo).toBeLessThan(1 / 1.03);
  expect(a.hi).toBeGreaterThan(72.9);
  const [one, cost] = [placeOf(a, 1), placeOf(a, 26.5)];
  expect(placeOf(a, Math.sqrt(26.5))).toBeCloseTo((one + cost) / 2, 6); // equal factors are equal lengths
  expect(placeOf(a, 1e9)).toBe(100);
});

test("values that differ tenfold stand on a logarithmic axis, others from a round floor", () => {
  expect(valueAxis([1, 10])).toMatchObject({ log: true });
  expect(valueAxis([1, 9])).toMatchObject({ log: false });
  expect(valueAxis([100, 101]).lo).toBeGreaterThan(99);
  expect(valueAxis([100, 101], true).lo).toBe(0);
  expect(valueAxis([])).toMatchObject({ lo: 0 });
  expect(valueAxis([5, 5])).toMatchObject({ lo: 4.72, hi: 5.28 });
});

test("ticks are round and few", () => {
  expect(ticksOf({ lo: 0.9, hi: 80, log: true }, 5)).toEqual([1, 3, 10, 30]);
  expect(ticksOf({ lo: 0.97, hi: 1.04, log: true }, 4).map((v) => v.toFixed(2))).toEqual(["0.98", "1.00", "1.02", "1.04"]);
  expect(ticksOf({ lo: 0, hi: 3 * 2 ** 20, log: false }, 4, "bytes")).toEqual([0, 1, 2, 3].map((n) => n * 2 ** 20));
});
