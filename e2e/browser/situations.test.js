// The reader's first view of recorded situations: the verdict names the problem and the process.
// The storm of system calls is in feed.test.js, whose host has one.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { cleanUp, missing, openPage, playBack, until } from "./harness.js";

describe("a reader sees at once", { skip: missing({ root: false }) }, () => {
  after(cleanUp);

  const watching = (...more) => playBack({ more, config: "analysis: {every: 1s}\n" });

  /** The page of a host, once the verdict names the problem of a process, and its headline. */
  async function problem(url, rule, subject) {
    const { page, check } = await openPage(`${url}/?range=5m`);
    await page.locator(`[data-problem=${rule}][data-subject="${subject}"]`).waitFor();
    const verdict = page.getByRole("region", { name: "Verdict" });
    const headline = await verdict.getByRole("heading").innerText();
    return { page, check, headline };
  }

  test("lock contention: the process, and how much of its time", async () => {
    const { url } = await watching("lock");
    const { page, check, headline } = await problem(url, "lock_contention", "shop");
    assert.match(headline, /^1 problem: shop spends 60 % of its active time waiting for locks \(since /);
    await page.getByRole("region", { name: "Verdict" }).getByRole("link").click();
    await page.getByRole("dialog").getByText("What to do.").waitFor();
    await check();
  });

  test("all well: nothing is wrong, and how much was checked", async () => {
    const { url } = await watching();
    await until("the rules about processes have answers", async () => {
      const silent = (await (await fetch(`${url}/api/teescope/v1/findings`)).json()).rules.filter((r) => r.answer === "silent").map((r) => r.name);
      return ["syscall_storm", "lock_contention", "cpu_starvation"].every((r) => silent.includes(r));
    });
    const { page, check } = await openPage(`${url}/?range=5m`);
    const verdict = page.getByRole("region", { name: "Verdict" });
    await verdict.getByText(/^Nothing wrong in the last \d/).waitFor();
    assert.equal(await verdict.getAttribute("data-level"), "good");
    assert.equal(await page.locator("[data-problem]").count(), 0);
    await check();
  });

  test("CPU starvation: the process that waits, and who takes the CPU from it", async () => {
    const { url } = await watching("starved");
    const { page, check, headline } = await problem(url, "cpu_starvation", "starved-app");
    assert.match(headline, /^1 problem: starved-app spends 80 % of its active time waiting for a CPU/);
    await page.goto(`${url}/?page=processes&subject=starved-app&range=5m`);
    const rivals = page.locator("[data-rival]");
    await rivals.first().waitFor();
    assert.equal(await rivals.first().getAttribute("data-rival"), "cpu-hog", "it takes the most");
    await check();
  });
});
