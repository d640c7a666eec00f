// The page of a monitor of this machine, with a real server under load.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { barriers, chart, cleanUp, countAt, drawn, missing, openPage, startMonitor, startRedis, tooWide, until, write } from "./harness.js";

const pages = ["now", "processes", "tee", "machine", "benchmarks", "explore", "findings", "settings"];
const tabs = [["processes", "containers"], ["explore", "changes"], ["explore", "dashboards"], ["findings", "history"], ["findings", "checks"]];
const calls = "System calls per second";
const byCall = "System calls per second, by call";

describe("the page", { skip: missing({ redis: true }) }, () => {
  let url;
  let redis;
  before(async () => {
    url = await startMonitor();
    redis = await startRedis();
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&process=${redis.name}`);
    await until("the load shows", () => page.locator(`section.panel[aria-label="${calls}"] tr[data-name="${redis.name}"]`).count());
    await check();
  });
  after(cleanUp);

  /** Values of the legend of a chart by name. */
  const legend = (page, title) =>
    chart(page, title).locator("tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.dataset.name, { mean: Number(r.dataset.mean), now: Number(r.dataset.now) }])));

  test("shows live charts of this machine", async () => {
    const { page, check } = await openPage(`${url}/?page=machine&range=5m`);
    const live = async (...titles) => {
      for (const t of titles) {
        await drawn(page, t);
        assert.ok(Object.values(await legend(page, t)).some((v) => v.mean > 0), `${t}: no value above zero`);
      }
    };
    await live("CPU by mode, percent of one core", "Memory");
    await page.goto(`${url}/?range=5m`);
    await live("CPU by process, percent of one core", "Threads that wait for a CPU, a disk or a lock, by process");
    await until("six tiles have a number", async () => (await page.locator("[data-tile]").evaluateAll((all) => all.filter((e) => e.dataset.value !== "" && Number.isFinite(Number(e.dataset.value))).length)) === 6);
    await until("the verdict has an answer", async () => /Nothing wrong|problem|Not enough data|started/.test(await page.getByRole("region", { name: "Verdict" }).innerText()));
    await page.goto(`${url}/?page=processes&range=5m`);
    await live(calls, byCall, "Context switches per second", "Page faults per second");
    const inked = await chart(page, calls).locator("canvas").evaluate((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v !== 0));
    assert.ok(inked, "the canvas is blank");
    // The chart holds only the busiest processes, and others run at the same time; with the filter,
    // redis stays.
    await page.getByRole("combobox", { name: /Process filter/ }).fill(redis.name);
    const now = async () => (await legend(page, calls))[redis.name]?.now;
    const before = await until("redis has a value", now);
    await until("the last value moves on", async () => ![before, undefined].includes(await now()));
    await check();
  });

  test("the rate shown is the server's own count within 2 %: filtered, after reload, in the dark", async (t) => {
    // The window goes from one reading to another, and the kernel's account is read at both, so the
    // load before and after them is in neither number. On a busy machine both may be late; then
    // their times are unknown, and the test uses other readings.
    const { counts, end } = redis.watch();
    const asked = "teescope_source_read_seconds[1m]";
    const window = await until("readings half a minute apart that were quick", async () => {
      const { data } = await (await fetch(`${url}/api/v1/query?query=${encodeURIComponent(asked)}`)).json();
      const took = new Map();
      for (const { values } of data.result) for (const [time, seconds] of values) took.set(time, (took.get(time) ?? 0) + Number(seconds));
      const quick = [...took].filter(([time, seconds]) => seconds < 0.1 && countAt(counts, time)?.within < 0.1).map(([time]) => time).sort((a, b) => a - b);
      return quick.at(-1) - quick[0] > 28 && { first: quick[0], to: quick.at(-1) };
    });
    end();
    const [first, last] = [countAt(counts, window.first), countAt(counts, window.to)];
    const seconds = window.to - window.first;
    const want = { read: (last.read - first.read) / seconds, write: (last.write - first.write) / seconds };
    const near = (got, call, where) => {
      const off = Math.abs(got / want[call] - 1);
      t.diagnostic(`${where}: ${call} ${got.toFixed(1)}/s shown, ${want[call].toFixed(1)}/s counted, ${(off * 100).toFixed(3)} % off`);
      assert.ok(off < 0.02, `${where}: ${call} ${got}/s, the kernel counted ${want[call]}/s for the process: ${(off * 100).toFixed(2)} % off`);
    };
    // A window begins after its first instant.
    const search = `from=${window.first - 0.001}&to=${window.to}`;
    const { page, check } = await openPage(`${url}/?page=processes&${search}&process=${redis.name}`, { colorScheme: "dark" });
    for (const where of ["processes", "processes after reload"]) {
      await drawn(page, byCall);
      const shown = await legend(page, byCall);
      for (const call of ["read", "write"]) near(shown[call].mean, call, where);
      await page.reload();
    }
    await page.goto(`${url}/?page=processes&subject=${redis.name}&${search}`);
    await page.locator("#calls tr[data-call=read]").waitFor();
    for (const call of ["read", "write"]) near(Number(await page.locator(`#calls tr[data-call=${call}] td[data-value]`).getAttribute("data-value")), call, "process");
    await check();
  });

  test("the filter narrows, counts, and says when it is no expression", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m`);
    await drawn(page, calls);
    const field = page.getByRole("combobox", { name: /Process filter/ });
    await field.fill(redis.name.slice(0, 9));
    await page.getByText("1 match").waitFor();
    await until("one process is left", async () => Object.keys(await legend(page, calls)).join() === redis.name);
    assert.match(page.url(), new RegExp(`process=${redis.name.slice(0, 9)}`));
    await page.getByRole("option", { name: redis.name }).click();
    await until("the completion is in the address", () => page.url().includes("process=%5Eredis-"));
    await field.fill("red(");
    await page.getByText(/^Not a regular expression: missing closing \)\.$/).waitFor();
    assert.match(page.url(), /process=%5Eredis-/, "charts go on with the last expression");
    assert.equal(await page.getByRole("alert").count(), 0, "no chart complains of it");
    await field.fill("no-such-process");
    await chart(page, calls).getByText(/No process matching no-such-process/).waitFor();
    await check();
  });

  test("where the reader is lives in the address", async () => {
    const { page, check } = await openPage(url);
    await page.getByRole("button", { name: "1h", exact: true }).click();
    await page.getByRole("combobox", { name: /Process filter/ }).fill("redis");
    await until("the address holds the filter", () => page.url().includes("process=redis"));
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("link", { name: "Processes", exact: true }).click();
    await page.locator("#processes").getByRole("button", { name: "System calls per second" }).click();
    await page.locator("#processes th[aria-sort]").getByText("System calls").waitFor();
    const address = page.url();
    await page.reload();
    await page.locator("#processes").waitFor();
    assert.equal(page.url(), address);
    assert.equal(await page.getByRole("button", { name: "1h", exact: true }).getAttribute("aria-pressed"), "true");
    assert.equal(await page.getByRole("combobox", { name: /Process filter/ }).inputValue(), "redis");
    assert.equal(await page.getByRole("banner").getByRole("button", { name: "Pause" }).getAttribute("aria-pressed"), "true");
    assert.match(await page.locator("#processes th[aria-sort]").innerText(), /System calls/);
    assert.equal(await page.locator("#processes tbody tr:not([data-name*=redis])").count(), 0);
    await page.goBack();
    await page.getByRole("region", { name: "Verdict" }).waitFor();
    assert.ok(page.url().includes("process=redis"), "the filter stays when the page changes");
    await check();
  });

  test("a drag zooms every chart, a double click goes back, one cursor for all", async () => {
    // The zoomed part must have samples.
    const readings = `${url}/api/v1/query?query=${encodeURIComponent('max(count_over_time(teescope_source_up{source="syscalls"}[1m]))')}`;
    await until("half a minute is stored", async () => Number((await (await fetch(readings)).json()).data.result[0]?.value[1]) >= 30);
    const { page, check } = await openPage(`${url}/?page=processes&range=15m&process=${redis.name}`);
    await drawn(page, calls);
    await drawn(page, "Page faults per second");
    // The axis of a young monitor is shorter than the range. Its ends, read with the keyboard:
    const end = async (key) => {
      await chart(page, calls).locator(".plot").press(key);
      const [h, m, s] = (await chart(page, calls).locator("[aria-live]").innerText()).slice(0, 8).split(":").map(Number);
      const at = new Date();
      at.setHours(h, m, s, 0);
      return at.getTime() / 1000 - (at > Date.now() + 3_600_000 ? 86_400 : 0);
    };
    const [first, last] = [await end("Home"), await end("End")];
    await page.keyboard.press("Escape");
    const shared = [calls, "Page faults per second"];
    const timed = async (t) => /\d\d:\d\d:\d\d/.test(await chart(page, t).locator("thead").innerText());
    for (const t of shared) await until("no legend shows a time", async () => !(await timed(t)));
    const over = chart(page, calls).locator(".u-over");
    await over.scrollIntoViewIfNeeded();
    const b = await over.boundingBox();
    await page.mouse.move(b.x + b.width * 0.995, b.y + 40);
    for (const t of shared) await until("the legend shows the time under the cursor", () => timed(t));
    await page.mouse.down();
    await page.mouse.move(b.x + b.width * 0.725, b.y + 60, { steps: 5 });
    await page.mouse.up();
    await until("the window is fixed", () => /from=\d+&to=\d+/.test(page.url()));
    const q = new URL(page.url()).searchParams;
    const [from, to] = [Number(q.get("from")), Number(q.get("to"))];
    // The axis may have grown until now. The window is of whole seconds, the mouse of whole pixels.
    const most = Math.min(900, Date.now() / 1000 - first);
    const slack = 2 + (2 * most) / b.width;
    assert.ok(to - from > 0.27 * (last - first) - slack && to - from < 0.27 * most + slack, `27 % of an axis of ${last - first} to ${most} s, the window has ${to - from} s`);
    assert.ok(from > first + 0.725 * (last - first) - slack && to < Date.now() / 1000 + slack, `the axis goes from ${first} to ${last}, the window from ${from} to ${to}`);
    await drawn(page, calls);
    await over.dblclick();
    await until("the live window is back", () => !page.url().includes("from="));
    await check();
  });

  test("empty, failing and slow answers each say so", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&process=${redis.name}`);
    await drawn(page, calls);
    // The loss of the monitor is reported once, and old content is distinguished from current.
    await page.route("**/api/**", (r) => r.abort());
    await page.getByRole("alert").getByText(/^The monitor has not answered since \d\d:\d\d:\d\d\. .*older than that/).waitFor();
    await until("several refreshes have failed", () => page.evaluate(() => performance.getEntriesByType("resource").filter((e) => e.name.includes("/api/") && e.responseStatus === 0).length > 3));
    assert.equal(await page.getByRole("alert").count(), 1);
    assert.equal(await chart(page, calls).getAttribute("data-state"), "drawn", "old data stays");
    assert.ok(Number(await chart(page, calls).evaluate((e) => { let o = 1; for (; e; e = e.parentElement) o *= getComputedStyle(e).opacity; return o; })) < 0.7, "it is dimmed");
    await page.unroute("**/api/**");
    await until("the page is itself again", async () => (await page.getByRole("alert").count()) === 0);

    await page.route("**/api/teescope/v1/queries", (r) => r.fulfill({ status: 503, contentType: "application/json", body: '{"error":"query timed out"}' }));
    await chart(page, calls).getByText("query timed out").waitFor();
    await page.unroute("**/api/teescope/v1/queries");

    await page.route("**/api/teescope/v1/queries", () => {}); // never answered
    await page.locator(`section.panel[aria-label="${calls}"] .dimmed`).waitFor();
    assert.equal(await chart(page, calls).getAttribute("data-state"), "drawn");
    await page.unrouteAll({ behavior: "ignoreErrors" });

    await page.goto(`${url}/?page=machine&from=1000000000&to=1000000300`);
    await chart(page, "Memory").getByText(/before the monitor started/).waitFor();
    await page.route("**/api/teescope/v1/platform", (r) => r.abort());
    await page.goto(url);
    await page.getByText(/does not answer/).first().waitFor();
    await check();
  });

  test("a source is switched off and on again, and its chart says so", async () => {
    const { page, check } = await openPage(`${url}/?page=settings`);
    const toggle = page.getByRole("switch", { name: "Source pagecache" });
    await toggle.focus();
    await page.keyboard.press("Space");
    await page.locator("[data-source=pagecache][data-state=off]").waitFor();
    try {
      const { page: other, check: checkOther } = await openPage(`${url}/?page=machine&from=${Math.floor(Date.now() / 1000) + 600}&to=${Math.floor(Date.now() / 1000) + 900}`);
      await other.getByText(/source pagecache is switched off/).waitFor();
      await checkOther();
    } finally {
      await toggle.focus();
      await page.keyboard.press("Space");
      await page.locator("[data-source=pagecache][data-state=available]").waitFor();
    }
    await check();
  });

  test("nothing jumps while a page fills", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`);
    await page.addInitScript(() => {
      window.shifts = [];
      new PerformanceObserver((list) => {
        for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifts.push([e.value, e.sources.map((s) => s.node?.textContent?.slice(0, 40)).join(" | ")]);
      }).observe({ type: "layout-shift", buffered: true });
    });
    for (const p of [...pages, ...tabs.map(([p, tab]) => `${p}&tab=${tab}`), `processes&subject=${redis.name}`]) {
      await page.goto(`${url}/?page=${p}&range=5m&refresh=0`);
      await page.locator("main h2").first().waitFor();
      await until(`${p} is there`, async () => (await page.locator("[data-state=loading], [aria-busy=true], .explain-loading, .page-loading").evaluateAll((all) => all.filter((e) => e.getBoundingClientRect().top < window.innerHeight).length)) === 0);
      await page.waitForTimeout(500); // the last frame is among the entries
      const shifts = await page.evaluate(() => window.shifts);
      const sum = shifts.reduce((n, [value]) => n + value, 0);
      assert.ok(sum < 0.1, `${p} shifts by ${sum}: ${JSON.stringify(shifts.filter(([v]) => v > 0.01))}`);
    }
    await check();
  });

  for (const scheme of ["light", "dark"]) {
    test(`every page is accessible, ${scheme}`, async () => {
      // Charts outside the window are not requested.
      const { page, check } = await openPage(`${url}/?range=5m&refresh=0`, { viewport: { width: 1280, height: 3200 }, colorScheme: scheme });
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
      assert.equal(background[0] < 64, scheme === "dark", `background ${background}`);
      for (const p of [...pages, ...tabs.map(([p, tab]) => `${p}&tab=${tab}`), `processes&subject=${redis.name}`]) {
        await page.goto(`${url}/?page=${p}&range=5m&refresh=0`);
        await page.locator("main h2").first().waitFor();
        await until(`nothing is being read on ${p}`, async () => (await page.locator("[data-state=loading]").evaluateAll((all) => all.filter((e) => e.getBoundingClientRect().top < window.innerHeight).length)) === 0);
        assert.deepEqual(await barriers(page), [], p);
      }
      await check();
    });
  }

  test("the system's dark mode is followed", async () => {
    const { page, check } = await openPage(url, { colorScheme: "dark" });
    assert.equal(await page.evaluate(() => document.documentElement.getAttribute("data-mantine-color-scheme")), "dark");
    await page.getByRole("button", { name: "Theme: system" }).click();
    await until("light was chosen", () => page.evaluate(() => document.documentElement.getAttribute("data-mantine-color-scheme") === "light"));
    assert.ok(!page.url().includes("theme"), "a shared link must not change the colours of others");
    await page.reload();
    await page.getByRole("button", { name: "Theme: light" }).waitFor();
    await check();
  });

  test("on a phone nothing is cut off and every page is in reach", async () => {
    const { page, check } = await openPage(`${url}/?range=5m`, { viewport: { width: 390, height: 844 }, hasTouch: true });
    const nav = page.getByRole("navigation", { name: "Pages" });
    const tapped = ["now", "findings", "processes", "tee"];
    assert.equal(await nav.getByRole("listitem").count(), 5, "five tabs");
    for (const p of pages) {
      const name = new RegExp(`^${p}`, "i");
      if (tapped.includes(p)) await nav.getByRole("link", { name }).tap();
      else {
        await nav.getByRole("button").tap();
        await page.getByRole("menuitem", { name }).tap();
      }
      await until(`${p} opens`, () => new URL(page.url()).searchParams.get("page") === (p === "now" ? null : p));
      await page.locator("main h2").first().waitFor();
      assert.deepEqual(await tooWide(page), [], `${p} is wider than the screen`);
    }
    await check();
  });

  test("the keyboard reaches everything", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0&process=${redis.name}`);
    await drawn(page, calls);
    const reached = [];
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      reached.push(await page.evaluate(() => { const e = document.activeElement; return (e.getAttribute("aria-label") ?? e.textContent).trim(); }));
    }
    for (const want of ["Skip to content", "Now", "Settings", "Process filter, a regular expression", "5m", "custom", "Data quality", "Pause", "Go to (Ctrl-K)", "Copy a link to this view and time", "Theme: system", `Menu of the chart ${calls}`, redis.name]) {
      assert.ok(reached.some((r) => r.startsWith(want)), `Tab does not reach ${want}; it reached ${reached.join(" | ")}`);
    }
    await chart(page, calls).locator(".plot").focus();
    await page.keyboard.press("ArrowLeft");
    await until("the values at the cursor are spoken", async () => (await chart(page, calls).locator("[aria-live]").innerText()).includes(redis.name));
    await page.getByRole("button", { name: `Menu of the chart ${calls}`, exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Open the query" }).waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: "Save as CSV" }).press("Enter");
    assert.match(readFileSync(await (await download).path(), "utf8"), new RegExp(`^time,.*${redis.name}`));
    await check();
  });

  test("Ctrl-K leads to a page and to a process", async () => {
    const { page, check } = await openPage(`${url}/?range=5m&refresh=0`);
    await page.getByRole("button", { name: "Go to (Ctrl-K)" }).waitFor();
    await page.keyboard.press("Control+k");
    const field = page.getByRole("combobox", { name: "Page, process or finding" });
    await field.fill("benchm");
    assert.deepEqual(await barriers(page), []);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Benchmarks" }).waitFor();
    await page.keyboard.press("Control+k");
    await field.fill(redis.name);
    await page.getByRole("option", { name: redis.name }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: redis.name, exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    await field.waitFor();
    await page.keyboard.press("Escape");
    await field.waitFor({ state: "detached" });
    await check();
  });

  test("a monitor that has just started says so instead of that nothing is there", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    await context.route("**/api/teescope/v1/platform", async (r) => r.fulfill({ json: { ...(await (await r.fetch()).json()), started: new Date(Date.now() - 5000).toISOString() } }));
    await context.route("**/api/teescope/v1/explain?*", (r) => r.fulfill({ status: 404, json: { error: "no process was seen" } }));
    await page.goto(`${url}/?page=processes&subject=${redis.name}&range=5m&refresh=0`);
    await page.getByText(/^The monitor started \d+ s ago; the first answers take a minute\.$/).waitFor();
    assert.equal(await page.getByText("no process was seen").count(), 0);
    await check();
  });

  test("explore draws a query and shows the server's complaint about a bad one", async () => {
    const { page, check } = await openPage(`${url}/?page=explore&range=5m`);
    const box = page.locator(".cm-content");
    // Enter would take a completion, which opens a moment after the text.
    const ask = async (text) => {
      await write(box, text);
      await box.press("Escape");
      await box.press("Enter");
    };
    await ask("sum(rate(tee_syscalls_total[20s]))");
    await drawn(page, "Over the time range");
    assert.ok(Number(await page.locator("td[data-value]").first().getAttribute("data-value")) > 0);
    // A process can have such a name; check() fails if drawing it threw.
    await ask(String.raw`label_replace(vector(1), "process", "<b>\n2", "", "") or label_replace(vector(2), "process", "3", "", "")`);
    await chart(page, "Over the time range").getByText("<b>").waitFor();
    await drawn(page, "Over the time range");
    await ask("sum(");
    await page.getByRole("alert").getByText(/parse error/).waitFor();

    // A metric is inserted at the cursor; queries are kept, one below the other.
    await write(box, "sum(rate([1m]))");
    for (let i = 0; i < 6; i++) await page.keyboard.press("ArrowLeft");
    await page.getByText(/^Metrics/).click();
    await page.getByRole("searchbox", { name: /Find a metric/ }).fill("page_faults");
    await page.locator("[data-metric=tee_page_faults_total]").getByText("counter", { exact: true }).waitFor();
    await page.getByRole("button", { name: "tee_page_faults_total" }).click();
    assert.equal(await box.innerText(), "sum(rate(tee_page_faults_total[1m]))");
    await page.getByRole("button", { name: "Add a query" }).click();
    await write(page.locator(".cm-content").nth(1), "vector(7)");
    await page.getByRole("button", { name: "Run" }).click();
    await drawn(page, "sum(rate(tee_page_faults_total[1m]))");
    await drawn(page, "vector(7)");
    await page.locator(".cm-content").nth(1).press("Escape"); // completions may have opened after the click
    await page.getByText("Earlier queries").click();
    await page.getByRole("link", { name: "vector(7)" }).waitFor();
    assert.deepEqual(await barriers(page), []);
    await check();
  });
});
