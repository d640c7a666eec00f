// Prints how long a page takes to be usable, in milliseconds, a line each time: from asking
// for it with an empty cache until no chart that is on the screen waits for its data, and
// one at least is drawn.
//
//   node usable.js URL [TIMES]
import { cleanUp, missing, openPage } from "./harness.js";

const [url, times = "5"] = process.argv.slice(2);
const why = url ? missing({ root: false }) : "no URL was given";
if (why) {
  console.error(`usable: ${why}`);
  process.exit(1);
}

/** The time at which it was usable, since the browser began to ask for the page. */
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
