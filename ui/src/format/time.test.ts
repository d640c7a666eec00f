import { expect, test } from "vitest";
import { formatLength, formatSince } from "./time";

test.each([
  [0, "0 s"],
  [59.7, "1 min"],
  [90, "1 min 30 s"],
  [7500, "2 h 5 min"],
  [86400, "1 d"],
  [-5, "0 s"],
])("%d seconds are %s", (s, want) => expect(formatLength(s)).toBe(want));

test("another day is named", () => {
  const now = new Date(2026, 4, 2, 15, 0);
  expect(formatSince(new Date(2026, 4, 2, 14, 2).toISOString(), now)).toBe("14:02");
  expect(formatSince(new Date(2026, 4, 1, 14, 2).toISOString(), now)).toBe("1 May, 14:02");
  expect(formatSince("nonsense", now)).toBe("unknown");
});
