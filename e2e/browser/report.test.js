// The written report in a browser: its height depends on the document and the width, not on the machine.
import assert from "node:assert/strict";
import path from "node:path";
import { after, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { barriers, cleanUp, fits, missing, openPage, repository } from "./harness.js";

const report = (name) => pathToFileURL(path.join(repository, "internal/report/formats/testdata", `${name}.html`)).href;
const tallest = 8000; // pixels, of four arms

describe("the written report", { skip: missing({ root: false }) }, () => {
  after(cleanUp);

  test("of four arms is short, begins with the table of arms, and shows stand-ins in grey", async () => {
    const { page, check } = await openPage(report("four"));
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height < tallest, `${height} px`);
    const arms = page.getByRole("region", { name: /^What each arm costs/ });
    const top = (await arms.boundingBox()).y;
    for (const verdict of await page.locator("article.verdict").all()) assert.ok((await verdict.boundingBox()).y > top);
    const colour = (locator) => locator.evaluate((e) => getComputedStyle(e).color);
    const dim = await colour(page.locator("p.lead").first());
    for (const arm of ["guest", "tdx"]) {
      const row = arms.getByRole("row", { name: new RegExp(`^${arm} stand-in `) }); // the word, before the number
      assert.equal(await colour(row.locator(".v-stand-in")), dim);
    }
    for (const card of await page.locator("article.v-stand-in").all()) {
      assert.equal(await colour(card.locator(".big")), dim);
      const said = await card.innerText();
      assert.match(said, /^\S*\s*stand-in/);
      assert.doesNotMatch(said.split("why", 1)[0], /\bgrade\b|\bcosts [\d≤≥]/);
    }
    assert.deepEqual(await barriers(page), []);
    await check();
    const phone = await openPage(report("four"), { viewport: { width: 390, height: 844 } });
    await fits(phone.page, "the report on a phone");
    await phone.check();
  });
});
