// Keeps pages open to measure their cost to the monitor:
//
//   node open.js URL
//
// Reads numbers of pages from its input, a line each, and answers each with the number once that
// many show their charts. It ends with its input.
import { createInterface } from "node:readline";
import { cleanUp, missing, openPage } from "./harness.js";

const [url] = process.argv.slice(2);
const why = url ? missing({ root: false }) : "no URL was given";
if (why) {
  console.error(`open: ${why}`);
  process.exit(1);
}

const open = [];
try {
  for await (const line of createInterface({ input: process.stdin })) {
    while (open.length > Number(line)) await open.pop().check();
    while (open.length < Number(line)) {
      open.push(await openPage(url));
      await open.at(-1).page.locator("section.panel[data-state=drawn]").first().waitFor();
    }
    console.log(open.length);
  }
} catch (error) {
  console.error(`open: ${url}: ${error.message.split("\n")[0]}`);
  process.exitCode = 1;
} finally {
  await cleanUp();
}
