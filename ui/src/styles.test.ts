import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

// Style sheets of pages are loaded with the page, and stay: two with rules for one class would make
// its look depend on the pages opened before.
test("each class belongs to one style sheet", () => {
  const owners = new Map<string, Set<string>>();
  for (const file of readdirSync("src", { recursive: true, encoding: "utf8" }).filter((f) => f.endsWith(".css"))) {
    const text = readFileSync(`src/${file}`, "utf8").replaceAll(/\/\*[^]*?\*\//g, "");
    for (const [, selectors] of text.matchAll(/([^{}]+)\{/g))
      for (const s of selectors!.split(",").map((s) => s.trim())) {
        if (/^\.[\w-]+$/.test(s)) owners.set(s, (owners.get(s) ?? new Set()).add(file));
      }
  }
  expect(owners.size).toBeGreaterThan(100);
  expect([...owners].filter(([, files]) => files.size > 1)).toEqual([]);
});
