// The reader's first view in prepared situations: the verdict names the problem and the process.
// The storm of system calls is in feed.test.js, whose load is one.
import assert from "node:assert/strict";
import { cpus } from "node:os";
import path from "node:path";
import { writeFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { cleanUp, missing, openPage, startCauses, startLoop, startMonitor, startRedis, tempDir, until } from "./harness.js";

// The state of the whole machine is not prepared: other programs run on it. Windows are short
// because a situation keeps every CPU busy while it lasts.
const rules = "analysis: {every: 1s, long: 20s, short: 10s, rules: {blind_counters: {off: true}, network_loss: {off: true}, pressure: {off: true}, cpu_steal: {off: true}}}\n";

describe("a reader sees at once", { skip: process.env.TEESCOPE_URL ? "needs monitors of its own" : missing({ redis: true }) }, () => {
  const watching = (names) => {
    const config = path.join(tempDir(), "config.yaml");
    writeFileSync(config, rules);
    return startMonitor("--process", `^(${names})$`, "--config", config);
  };
  after(cleanUp);

  /** The verdict, once it names the problem of a process, and the text of its row. */
  async function problem(url, rule, subject) {
    const { page, check } = await openPage(`${url}/?range=5m`);
    await page.locator(`[data-problem=${rule}][data-subject="${subject}"]`).waitFor();
    const verdict = page.getByRole("region", { name: "Verdict" });
    const headline = await verdict.getByRole("heading").innerText();
    return { page, check, headline };
  }

  describe("whether all is well, or threads wait for a lock", () => {
    let well;
    let locked;
    let lock;
    let redis;
    before(async () => {
      redis = await startRedis({ name: "calm-redis", rate: 200, nice: -15 });
      lock = startCauses("shop", "lock=0.8", { nice: -10 });
      [well, locked] = await Promise.all([watching(redis.name), watching("shop")]);
    });

    test("lock contention: the process, and how much of its time", async () => {
      const { page, check, headline } = await problem(locked, "lock_contention", "shop");
      assert.match(headline, /^1 problem: shop .*lock.* \d.* % .*\(since /);
      await page.getByRole("region", { name: "Verdict" }).getByRole("link").click();
      await page.getByRole("dialog").getByText("What to do.").waitFor();
      await check();
    });

    test("all well: nothing is wrong, and how much was checked", async () => {
      await lock.stop();
      const silent = async () => (await (await fetch(`${well}/api/teescope/v1/findings`)).json()).rules.filter((r) => r.answer === "silent").map((r) => r.name);
      const asked = ["syscall_storm", "lock_contention", "cpu_starvation"];
      await until("the rules about processes have answers", async () => {
        const names = await silent();
        return asked.every((r) => names.includes(r));
      });
      const { page, check } = await openPage(`${well}/?range=5m`);
      const verdict = page.getByRole("region", { name: "Verdict" });
      await verdict.getByText(/^Nothing wrong in the last \d/).waitFor();
      assert.equal(await verdict.getAttribute("data-level"), "good");
      assert.equal(await page.locator("[data-problem]").count(), 0);
      await check();
    });
  });

  test("CPU starvation: the process that waits, and who takes the CPU from it", async () => {
    const url = await watching("starved-app|cpu-hog");
    for (let i = 0; i < cpus().length; i++) startLoop("cpu-hog", -5);
    startLoop("starved-app", 19);
    const { page, check, headline } = await problem(url, "cpu_starvation", "starved-app");
    assert.match(headline, /^1 problem: (CPU saturated: \d effects, on starved-app and|starved-app waits for a CPU during \d.* % of the time)/);
    await page.goto(`${url}/?page=processes&subject=starved-app&range=5m`);
    await page.locator("[data-rival=cpu-hog]").waitFor();
    await check();
  });
});
