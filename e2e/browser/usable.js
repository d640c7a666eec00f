// Prints the time until a page is usable, in milliseconds, one line per load: from the request
// with an empty cache until no chart on the screen waits for data and at least one is drawn.
//
//   node usable.js URL [TIMES]
import { cleanUp, missing, openPage } from "./harness.js";

const [url, times = "5"] = process.argv.slice(2);
const why = url ? missing({ root: false }) : "no URL was given";
if (why) {
  console.error(`usable: ${why}`);
  process.exit(1);
}

/** The time at which it was usable, since the browser requested the page. */
function usable() {
  const end = performance.now() + 60_000;
  return new Promise((resolve, reject) => {
    const look = () => {
      const seen = [...document.querySelectorAll("section.panel")].filter((e) => e.getBoundingClientRect().top < window.innerHeight).map((e) => e.dataset.state);
      const now = performance.now();
      if (seen.includes("drawn") && !seen.includes("loading")) resolve(now);
      else if (now > end) reject(new Error(`the charts on the screen are ${seen.join(", ") || "none"}`));
      else requestAnimationFrame(look);
    };
    look();
  });
}

try {
  for (let i = 0; i < Number(times); i++) {
    const { page, check } = await openPage(url);
    console.log((await page.evaluate(usable)).toFixed(0));
    await check();
  }
} catch (error) {
  console.error(`usable: ${url}: ${error.message.split("\n")[0]}`);
  process.exitCode = 1;
} finally {
  await cleanUp();
}
