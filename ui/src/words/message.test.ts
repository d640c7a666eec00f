import { expect, test } from "vitest";
import { plainMessage } from "./message";

test("a bad expression is named without the query around it", () => {
  for (const message of [
    "error parsing regexp: missing closing ): `^(?s:.*(?:red().*)$`",
    'invalid parameter "match[]": 1:40: parse error: error parsing regexp: missing closing ): `^(?s:.*(?:red().*)$`',
    "error parsing regexp: missing closing )",
  ])
    expect(plainMessage(message)).toBe("Not a regular expression: missing closing ).");
  expect(plainMessage("error parsing regexp: invalid nested repetition operator: `**`")).toBe("Not a regular expression: invalid nested repetition operator.");
});

test("other messages stay as they are", () => {
  for (const message of ["query timed out", '1:5: parse error: unclosed left parenthesis', ""]) expect(plainMessage(message)).toBe(message);
});
