import { expect, test } from "vitest";
import { formatChange, formatMeasure, formatTimes, labelOf, rawMeasure } from "./measure";

test.each([
  [0.0123456, "seconds", "12.3 ms"],
  [41_234, "requests_per_second", "41.2 k requests/s"],
  [12, "operations", "12 operations"],
  [2.5e9, "hertz", "2.5 GHz"],
  [50, "hertz", "50 Hz"],
  [1048576, "bytes_per_second", "1 MiB/s"],
  [0.41, "ratio", "41 %"],
  [3.14159, "1", "3.14"],
] as const)("%d %s reads %s", (v, unit, want) => expect(formatMeasure(v, unit)).toBe(want));

test("what is missing says so", () => {
  for (const v of [null, undefined, Number.NaN, Number.POSITIVE_INFINITY]) expect([formatMeasure(v, "seconds"), rawMeasure(v, "seconds")]).toEqual(["missing", "no value"]);
  expect(rawMeasure(0.0123456, "seconds")).toBe("0.0123456 seconds");
});

test("ratios as factors and as changes", () => {
  expect([1.0341, 3.1249, 24.49, 892.4, 12345].map(formatTimes)).toEqual(["1.034x", "3.12x", "24.5x", "892x", "12300x"]);
  expect([1.0342, 0.88, 1, 2].map(formatChange)).toEqual(["+3.42 %", "−12 %", "±0 %", "+100 %"]);
});

test("a label leaves out the unit", () => expect([labelOf("startup_seconds", "seconds"), labelOf("seconds", "seconds"), labelOf("total_mips", "")]).toEqual(["startup", "seconds", "total mips"]));
