import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { formatLength, formatSince } from "./time";

// The Go printer is tested with the same file.
const shared = JSON.parse(readFileSync(new URL("../../../internal/metric/testdata/numbers.json", import.meta.url), "utf8")) as { lengths: [number, string][] };

test.each(shared.lengths)("%d seconds are %s", (s, want) => expect(formatLength(s)).toBe(want));

test("another day is named", () => {
  const now = new Date(2026, 4, 2, 15, 0);
  expect(formatSince(new Date(2026, 4, 2, 14, 2).toISOString(), now)).toBe("14:02");
  expect(formatSince(new Date(2026, 4, 1, 14, 2).toISOString(), now)).toBe("1 May, 14:02");
  expect(formatSince("nonsense", now)).toBe("unknown");
});
