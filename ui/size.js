// Prints what the first view loads, compressed, and fails above the budget.
import { readFileSync, statSync } from "node:fs";

const budget = 250 * 1024;
const dist = new URL("./dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));

const files = new Set();
const visit = (key) => {
  const chunk = manifest[key];
  if (files.has(chunk.file)) return;
  files.add(chunk.file);
  for (const css of chunk.css ?? []) files.add(css);
  for (const next of chunk.imports ?? []) visit(next);
};
visit("index.html");

let sum = 0;
for (const file of files) {
  const size = statSync(new URL(`${file}.gz`, dist)).size;
  sum += size;
  console.log(`${(size / 1024).toFixed(1).padStart(7)} KiB  ${file}`);
}
console.log(`${(sum / 1024).toFixed(1).padStart(7)} KiB  first load, gzip; the budget is ${budget / 1024} KiB`);
if (sum > budget) {
  console.error("the first load is over its budget: load pages lazily, import single components");
  process.exit(1);
}
