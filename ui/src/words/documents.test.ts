import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { documents } from "./documents";

test("the page lists the documents of docs/README.md", () => {
  const lines = [...readFileSync("../docs/README.md", "utf8").matchAll(/^- \[([^\]]+\.md)\]\([^)]+\): (.+)$/gm)].map((m) => [m[1], m[2]]);
  expect(lines.length).toBeGreaterThan(20);
  expect(documents).toEqual(lines);
});

test("who looks for Slack finds the document on notifications", () => {
  expect(documents.filter(([, about]) => about.toLowerCase().includes("slack")).map(([name]) => name)).toEqual(["findings.md"]);
});
