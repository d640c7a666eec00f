import { expect, test } from "vitest";
import { formatTick, formatValue, rawValue, unitOf } from "./number";

test.each([
  [0, "1/s", "0/s"],
  [12.345, "1/s", "12.3/s"],
  [999.4, "1/s", "999/s"],
  [999.6, "1/s", "1 k/s"],
  [41_234, "1/s", "41.2 k/s"],
  [999_700, "", "1 M"],
  [0.0641, "1/s", "0.0641/s"],
  [0.00004, "", "0.00004"],
  [-1500, "", "−1.5 k"],
  [1023, "bytes", "1023 B"],
  [1024, "bytes", "1 KiB"],
  [1048576, "bytes", "1 MiB"],
  [25276502016, "bytes", "23.5 GiB"],
  [4.5e6, "bytes/s", "4.29 MiB/s"],
  [0.41, "ratio", "41 %"],
  [1.5, "cores", "150 % of a core"],
  [0.0000012, "seconds", "1.2 µs"],
  [90, "seconds", "90 s"],
  [Number.POSITIVE_INFINITY, "", "∞"],
] as const)("%d in %s reads %s", (v, unit, want) => {
  expect(formatValue(v, unit)).toBe(want);
});

test("what is missing is never 0", () => {
  for (const v of [null, undefined, Number.NaN]) {
    expect(formatValue(v, "1/s")).toBe("–");
    expect(rawValue(v, "1/s")).toBe("no value");
  }
});

test("the raw value keeps every digit", () => expect(rawValue(41234.5678, "1/s")).toBe("41234.5678 per second"));
test("ticks leave words to the title", () => expect([formatTick(2000, "1/s"), formatTick(2048, "bytes/s")]).toEqual(["2 k", "2 KiB"]));
test("an unknown unit is a plain number", () => expect([unitOf("ratio"), unitOf("furlongs")]).toEqual(["ratio", ""]));
