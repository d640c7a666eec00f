// The sources on the page: their settings, the budget, and the notes on estimated or missing
// numbers. They are those of this machine: a recorded one has nothing to switch.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { barriers, binary, change, chart, cleanUp, drawn, fits, missing, openPage, seconds, startMonitor, until } from "./harness.js";

const budgetChart = "Busiest core: monitor and budget";
const pages = "Page cache, pages per second, all processes";

describe("sources on the page", { skip: process.env.TEESCOPE_URL ? "needs a monitor of its own" : missing() }, () => {
  let url;
  before(async () => {
    url = await startMonitor();
    await until("a few readings", async () => Number((await query("sum(count_over_time(teescope_budget_used_ratio[1h]))"))[0]?.value[1]) >= 4);
  });
  after(cleanUp);

  const query = async (expr) => (await (await fetch(`${url}/api/v1/query?query=${encodeURIComponent(expr)}`)).json()).data.result;
  const source = async (name) => (await (await fetch(`${url}/api/teescope/v1/sources`)).json()).find((s) => s.name === name);
  const set = (name, setting) => change(url, "POST", `sources/${name}`, setting);

  /** The settings page with the settings of a source open, and a mark that a reload would remove. */
  async function settings(name) {
    const opened = await openPage(`${url}/?page=settings&range=5m`);
    const item = opened.page.locator(`tbody[data-source=${name}]`);
    await item.getByText("Settings and details").click();
    await opened.page.evaluate(() => (window.neverReloaded = true));
    return { ...opened, item, reloaded: async () => !(await opened.page.evaluate(() => window.neverReloaded === true)) };
  }

  test("what changes something is locked, and the link of `teescope open` unlocks it", async () => {
    const { page, context, check } = await openPage(`${url}/?page=settings&range=5m`, { may: false });
    const toggle = page.getByRole("switch", { name: "Source syscalls" });
    await page.locator("[data-locked]").getByText(/sudo teescope open --socket \/\S+\.sock/).waitFor();
    assert.equal(await toggle.isDisabled(), true);
    assert.equal(await page.getByText("Settings and details").count(), 0);
    assert.equal((await context.request.post(`${url}/api/teescope/v1/sources/syscalls`, { data: { on: false } })).status(), 403);
    await page.goto(`${url}/?page=explore&tab=dashboards&range=5m`);
    await page.locator("[data-locked]").getByText("sudo teescope open").waitFor();
    assert.equal(await page.getByRole("button", { name: "New dashboard" }).isDisabled(), true);

    const { stdout, stderr } = spawnSync(binary, ["open", "--server", url], { encoding: "utf8" });
    assert.match(stderr, /The link works once/);
    await page.goto(stdout.trim());
    assert.equal(new URL(page.url()).search, ""); // the secret is gone from the address
    await page.goto(`${url}/?page=settings&range=5m`);
    await until("the switch is unlocked", async () => toggle.isEnabled());
    assert.equal(await page.locator("[data-locked]").count(), 0);
    await check();
  });

  test("a source is narrowed from the page: by name, process id and control group", async () => {
    const { page, check, item, reloaded } = await settings("syscalls");
    const me = String(process.pid);
    try {
      const name = page.getByRole("textbox", { name: "Process filter of syscalls" });
      await name.fill("^node|^teescope");
      await name.press("Enter");
      await item.getByText("Only processes matching ^node|^teescope.").waitFor();
      assert.equal((await source("syscalls")).process, "^node|^teescope");

      const ids = page.getByRole("textbox", { name: "Process ids of syscalls" });
      await ids.fill(me);
      await page.getByRole("button", { name: "Set: Process ids of syscalls" }).click();
      await item.getByText(`with the process ids ${me}.`).waitFor();
      assert.deepEqual((await source("syscalls")).pids, [process.pid]);
      await until("the process has series of its own", async () => (await query(`tee_pid_syscalls_total{pid="${me}"}`)).length > 0);
      await until("others are no longer counted", async () => {
        const rows = await query("tee_syscalls_total[5m]");
        const latest = Math.max(...rows.map(({ values }) => values.at(-1)[0])); // ended series have none
        const growing = rows.filter(({ values }) => values.at(-1)[0] === latest && values.length > 1 && values.at(-1)[1] !== values.at(-2)[1]);
        return growing.length > 0 && growing.every((r) => /^(node|teescope|MainThread)/.test(r.metric.process));
      });

      // A process outside the requested group would be refused.
      await ids.fill("");
      await ids.press("Enter");
      await until("the process ids are gone", async () => !(await source("syscalls")).pids?.length);
      const groups = page.getByRole("textbox", { name: "Control groups of syscalls" });
      await groups.fill("no-such-group");
      await groups.press("Enter");
      await item.getByText("in control groups matching no-such-group.").waitFor();
      assert.equal((await source("syscalls")).cgroup, "no-such-group");

      for (const field of [name, groups]) {
        await field.fill("");
        await field.press("Enter");
      }
      await until("it counts everything again", async () => {
        const s = await source("syscalls");
        return !s.process && !s.cgroup && !s.pids?.length && (await item.locator("[data-narrowed]").count()) === 0;
      });
      assert.equal(await reloaded(), false);
    } finally {
      await set("syscalls", { process: "", pids: [], cgroup: "", container: "" });
    }
    await check();
  });

  test("each setting has its own complaint, in the monitor's words", async () => {
    const { page, check, item } = await settings("faults");
    for (const [field, text, complaint] of [
      ["Process filter of faults", "a(", /missing closing \)/],
      ["Process ids of faults", "0", /want a process id above 0/],
      ["Process ids of faults", "one", /One is not a process id/],
      ["Containers of faults", "[", /missing closing \]/],
      ["Sampling of faults, percent of the time", "250", /above 0 and at most 1/],
      ["Sampling of faults, percent of the time", "much", /Much is not a number/],
    ]) {
      const box = page.getByRole("textbox", { name: field });
      await box.fill(text);
      await box.press("Enter");
      const alert = item.locator("form", { has: box }).getByRole("alert");
      await alert.getByText(complaint).waitFor();
      assert.equal(await box.getAttribute("aria-invalid"), "true");
      assert.ok((await box.getAttribute("aria-describedby")).includes(await alert.getAttribute("id")), "the field names its complaint");
    }
    assert.equal(await item.getByRole("alert").filter({ hasText: /./ }).count(), 4, "one for each field");
    const s = await source("faults");
    assert.deepEqual([s.process, s.pids, s.container, s.sample], [undefined, undefined, undefined, 1], "nothing was changed");
    await check();
  });

  test("the level of detail changes from the page, and what is in force shows beside what was asked for", async () => {
    const { page, check, item, reloaded } = await settings("syscalls");
    try {
      const level = page.getByRole("combobox", { name: "Level of detail of syscalls" });
      await item.getByText(/latency: also how long calls take/).waitFor();
      await level.focus();
      await page.keyboard.press("ArrowDown");
      await until("the monitor was asked", async () => (await source("syscalls")).wanted === "latency");
      await item.getByText(/level latency|latency requested/).first().waitFor();
      await until("the field says so", async () => (await level.inputValue()) === "latency");
      assert.equal(await reloaded(), false);

      // This budget is large enough; the page's text for one that is not:
      await page.route("**/api/teescope/v1/sources", async (r) => {
        const list = await (await r.fetch()).json();
        await r.fulfill({ json: list.map((s) => (s.name === "syscalls" ? { ...s, level: "count" } : s)) });
      });
      await item.getByText("level count, latency requested").waitFor();
      await item.getByText("Runs at count: the budget does not allow latency.").waitFor();
      await page.getByRole("region", { name: "Effects of the budget" }).getByText(/syscalls runs at level count instead of latency/).waitFor();
      await page.unrouteAll({ behavior: "ignoreErrors" });
    } finally {
      await set("syscalls", { level: "count" });
    }
    await check();
  });

  test("the budget over time: what was used beside what was promised, and where it goes", async () => {
    const { page, check } = await openPage(`${url}/?page=settings&range=5m`);
    await drawn(page, budgetChart);
    const row = (name) => chart(page, budgetChart).locator(`tr[data-name^="${name}"]`);
    const promised = Number((await query("teescope_budget_ratio"))[0].value[1]);
    assert.equal(Number(await row("budget").getAttribute("data-now")), promised);
    await until("some of it was used", async () => Number(await row("used").getAttribute("data-now")) > 0);
    await drawn(page, "Counting in the kernel by source, percent of one core");
    await drawn(page, "Coverage: share of all events that each source counted");
    const covered = await chart(page, "Coverage: share of all events that each source counted").locator("tbody tr").evaluateAll((rows) => rows.map((r) => r.dataset.name));
    assert.ok(covered.includes("syscalls") && !covered.includes("memory"), `sources that count in the kernel: ${covered}`);
    await drawn(page, "CPU of the monitor by part, percent of one core");
    await page.getByRole("region", { name: "Effects of the budget" }).getByText(/limits nothing now|To stay within 100 % of each core/).waitFor();
    await check();
  });

  test("an estimate is said once for the page, and in Explore, with the monitor's words", async () => {
    const { page, check, item } = await settings("pagecache");
    try {
      const box = page.getByRole("textbox", { name: "Sampling of pagecache, percent of the time" });
      await box.fill("25 %");
      await box.press("Enter");
      await until("it is sampled", async () => (await source("pagecache")).sample === 0.25);
      await item.getByText(/^counts \d\d?(\.\d+)? %/).waitFor(); // how much, sources.measure.js says

      await page.goto(`${url}/?page=machine&range=5m`);
      await drawn(page, pages);
      assert.equal(await page.locator("main [data-remark]").count(), 0, "no chart has a badge");
      await page.getByRole("button", { name: /^Data quality: estimates ±\d/ }).click();
      const reasons = page.getByRole("dialog", { name: "Data quality" });
      await reasons.locator("[data-limits=pagecache]").getByText(/Counts .* % of events, scaled, ± /).waitFor();
      await reasons.locator("[data-limits=pagecache]").getByText(/as configured/i).waitFor();
      await page.keyboard.press("Escape");
      await reasons.waitFor({ state: "detached" });

      await page.goto(`${url}/?page=explore&range=5m&expr=${encodeURIComponent("sum by (operation) (rate(tee_page_cache_pages_total[1m]))")}`);
      await chart(page, "Over the time range").getByText(/Source pagecache counted down to .* % of its events/).waitFor();
      await page.getByRole("region", { name: "At the end of the range" }).getByText("pagecache partly estimated").waitFor();
    } finally {
      await set("pagecache", { sample: 1 });
    }
    await check();
  });

  test("a source that the budget switched off is said once, with the reason, and an empty chart says it too", async () => {
    const { page, check } = await openPage(`${url}/?page=machine&range=5m&refresh=0`);
    await page.route("**/api/teescope/v1/sources", async (r) => {
      const list = await (await r.fetch()).json();
      await r.fulfill({ json: list.map((s) => (s.name === "pagecache" ? { ...s, state: "degraded", blind: true, reason: "budget", remedy: "raise --budget" } : s)) });
    });
    await page.reload();
    await page.getByRole("button", { name: /1 source off/ }).click();
    await page.getByRole("dialog").locator("[data-limits=pagecache]").getByText(/the budget does not allow counting these events/i).waitFor();
    const later = Math.floor(seconds()) + 3600;
    await page.goto(`${url}/?page=machine&from=${later}&to=${later + 300}&refresh=0`);
    await chart(page, pages).getByText(/Counters of pagecache are unavailable here: the budget does not allow/).waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await check();
  });

  for (const theme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      test(`settings and data quality are in reach and fit, ${theme}, ${width} pixels wide`, async () => {
        await set("pagecache", { sample: 0.25 });
        try {
          const { page, check } = await openPage(`${url}/?page=settings&range=5m&refresh=0`, { viewport: { width, height: 844 }, colorScheme: theme });
          await page.locator("tbody[data-source=syscalls] details").waitFor();
          for (const details of await page.locator("tbody.source details").all()) await details.evaluate((e) => (e.open = true));
          const filter = page.getByRole("textbox", { name: "Process filter of syscalls" });
          await filter.fill("a(");
          await filter.press("Tab");
          await page.keyboard.press("Enter"); // the field's own button has the focus
          await page.getByText(/missing closing \)/).waitFor();
          await fits(page, "sources");
          assert.deepEqual(await barriers(page), [], "sources");

          await page.goto(`${url}/?range=5m&refresh=0`);
          await page.getByRole("button", { name: /^Data quality: estimates/ }).focus();
          await page.keyboard.press("Enter");
          await page.getByRole("dialog").locator("[data-limits=pagecache]").waitFor();
          await fits(page, "data quality");
          assert.deepEqual(await barriers(page), [], "data quality");
          await check();
        } finally {
          await set("pagecache", { sample: 1 });
        }
      });
    }
  }

  test("a source is switched off and on again, and its chart says so", async () => {
    const later = Math.floor(seconds()) + 3600; // nothing is stored there
    const { page, check } = await openPage(`${url}/?page=settings`);
    const toggle = page.getByRole("switch", { name: "Source pagecache" });
    await toggle.focus();
    await page.keyboard.press("Space");
    await page.locator("[data-source=pagecache][data-state=off]").waitFor();
    try {
      const { page: other, check: checkOther } = await openPage(`${url}/?page=machine&from=${later}&to=${later + 300}`);
      await other.getByText(/source pagecache is switched off/).waitFor();
      await checkOther();
    } finally {
      await toggle.focus();
      await page.keyboard.press("Space");
      await page.locator("[data-source=pagecache][data-state=available]").waitFor();
    }
    await check();
  });

  test("opt-in sources are told apart from switched-off ones", async () => {
    const { page, check } = await openPage(`${url}/?page=settings&refresh=0`);
    await page.locator("tbody[data-source=tcp_connect]").getByText("off by default").waitFor();
    const toggle = page.getByRole("switch", { name: "Source pressure" });
    await toggle.focus();
    await page.keyboard.press("Space");
    try {
      await page.locator("tbody[data-source=pressure]").getByText("switched off").waitFor();
      assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-label")), "Source pressure", "the keyboard stays where it was");
    } finally {
      await set("pressure", { on: true });
    }
    await check();
  });

  test("a source that switches by itself says what it waits for, and a switch by hand can be undone", async () => {
    await set("runtimes", { on: false });
    const { page, check } = await openPage(`${url}/?page=settings&refresh=0`);
    const item = page.locator("tbody[data-source=runtimes]");
    await item.getByText("switched off").waitFor();
    await item.getByRole("button", { name: "Switch runtimes automatically" }).click();
    await item.getByText("off until needed").waitFor();
    await item.getByText(/^Off until an enclave or its runtime runs.* It then switches on automatically\.$/).waitFor();
    await check();
  });
});
