// The picture in README.md: the page over a redis-server under load and a program that asks
// for the time over and over. `make picture` takes it anew, after minutes of both; otherwise
// the test takes it at once, and checks what is committed.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, describe, test } from "node:test";
import { chart, cleanUp, drawn, missing, openPage, repository, startMonitor, startRedis, startStorm, tempDir, until } from "./harness.js";

const committed = path.join(repository, "docs/page.webp");
const limit = 150 * 1024; // bytes
const anew = process.env.TEESCOPE_PICTURE === "1";
const seconds = (n) => new Promise((resolve) => setTimeout(resolve, n * 1000));

// Findings about the machine on which the picture happens to be taken are left out.
const rules = "analysis: {rules: {blind_counters: {off: true}, network_loss: {off: true}, pressure: {off: true}}}\n";

describe("the picture of the page", { skip: missing({ redis: true }) }, () => {
  after(cleanUp);

  test("shows a load, and takes less than 150 KiB", async () => {
    const config = path.join(tempDir(), "config.yaml");
    writeFileSync(config, rules);
    const url = await startMonitor("--interval", "5s", "--budget", "1%", "--process", "^(redis-server|chatty-service)$", "--config", config);
    const redis = await startRedis({ name: "redis-server", rate: 10_000 });
    if (anew) {
      await seconds(150);
      startStorm("chatty-service", 600);
      await until("a finding opens", async () => {
        const { findings } = await (await fetch(`${url}/api/teescope/v1/findings`)).json();
        return findings.some((f) => f.subject === "chatty-service");
      });
      await seconds(60);
    }
    const { page, check } = await openPage(`${url}/?range=5m`);
    for (const title of ["System calls per second", "CPU, percent of one core"]) {
      await drawn(page, title);
      await until(`${title} shows the load`, () => chart(page, title).locator(`tr[data-name="${redis.name}"]`).count());
    }
    await page.evaluate(() => window.scrollTo(0, 0));
    if (anew) await seconds(2); // nothing is being loaded
    const picture = await webp(page, await page.screenshot());
    assert.ok(picture.length > 10 * 1024 && picture.length < limit, `${picture.length} bytes`);
    await check();
    if (anew) writeFileSync(committed, picture);
  });

  test("is committed, small, and in the README", () => {
    const size = readFileSync(committed).length;
    assert.ok(size > 10 * 1024 && size < limit, `${size} bytes`);
    assert.match(readFileSync(path.join(repository, "README.md"), "utf8"), /\(docs\/page\.webp\)/);
  });
});

/** A screenshot as WebP, which is far smaller than PNG. */
async function webp(page, png) {
  const url = await page.evaluate(async (data) => {
    const image = new Image();
    image.src = data;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", 0.9);
  }, `data:image/png;base64,${png.toString("base64")}`);
  return Buffer.from(url.split(",")[1], "base64");
}
