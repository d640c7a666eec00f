import { expect, test } from "vitest";
import { formatMeasure, labelOf, rawMeasure } from "./measure";

test("what is missing says so", () => {
  for (const v of [null, undefined, Number.NaN, Number.POSITIVE_INFINITY]) expect([formatMeasure(v, "seconds"), rawMeasure(v, "seconds")]).toEqual(["missing", "no value"]);
  expect(rawMeasure(0.0123456, "seconds")).toBe("0.0123456 seconds");
});

test("a label leaves out the unit", () => expect([labelOf("startup_seconds", "seconds"), labelOf("seconds", "seconds"), labelOf("total_mips", "")]).toEqual(["startup", "seconds", "total mips"]));
