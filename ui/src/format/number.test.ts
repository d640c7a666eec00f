import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { formatChange, formatTick, formatTimes, formatTimesOf, formatValue, rawValue, unitOf } from "./number";

// The Go printer is tested with the same file.
const shared = JSON.parse(readFileSync(new URL("../../../internal/metric/testdata/numbers.json", import.meta.url), "utf8")) as {
  values: [number, string, string][];
  times: [number, string][];
  times_of: [number, number, number, string][];
  changes: [number, string][];
};

test.each(shared.values)("%d in %s reads %s", (v, unit, want) => expect(formatValue(v, unit)).toBe(want));
test.each(shared.times)("%d times reads %s", (v, want) => expect(formatTimes(v)).toBe(want));
test.each(shared.times_of)("%d times in [%d, %d] reads %s", (v, low, high, want) => expect(formatTimesOf(v, low, high)).toBe(want));
test.each(shared.changes)("%d as a change reads %s", (v, want) => expect(formatChange(v)).toBe(want));

test("what is missing is never 0", () => {
  for (const v of [null, undefined, Number.NaN]) {
    expect(formatValue(v, "1/s")).toBe("–");
    expect(rawValue(v, "1/s")).toBe("no value");
  }
  expect(formatValue(Number.POSITIVE_INFINITY, "")).toBe("∞");
});

test("the raw value keeps every digit", () => expect(rawValue(41234.5678, "1/s")).toBe("41234.5678 per second"));
test("ticks leave words to the title", () => expect([formatTick(2000, "1/s"), formatTick(2048, "bytes/s")]).toEqual(["2 k", "2 KiB"]));
test("an unknown unit is a plain number", () => expect([unitOf("ratio"), unitOf("furlongs")]).toEqual(["ratio", ""]));
