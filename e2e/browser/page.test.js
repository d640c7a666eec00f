// The page of a monitor that plays back a recorded host: redis-0001 makes 2000 reads, 2000 writes
// and 1800 other calls a second, all the time.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { barriers, chart, cleanUp, drawn, driveClock, filled, fits, missing, openPage, patience, playBack, reached, seconds, secondsOf, until, write } from "./harness.js";

const pages = ["now", "processes", "tee", "machine", "benchmarks", "explore", "findings", "settings"];
const tabs = [["processes", "containers"], ["explore", "changes"], ["explore", "dashboards"], ["findings", "history"], ["findings", "checks"]];
const calls = "System calls per second";
const byCall = "System calls per second, by call";

const redis = "redis-0001";

describe("the page", { skip: missing({ root: false }) }, () => {
  let url;
  let now;
  let pids;
  before(async () => {
    ({ url, now, pids } = await playBack());
  });
  after(cleanUp);

  /** Values of the legend of a chart by name. */
  const legend = (page, title) =>
    chart(page, title).locator("tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.dataset.name, { mean: Number(r.dataset.mean), now: Number(r.dataset.now) }])));

  /** A number without the rounding errors of a sum. */
  const round = (v) => Math.round(v * 1e6) / 1e6;

  test("shows live charts of the host", async () => {
    const { page, check } = await openPage(`${url}/?page=machine&from=${now - 300}&to=${now}`);
    const means = async (title) => {
      await drawn(page, title);
      return Object.fromEntries(Object.entries(await legend(page, title)).map(([name, v]) => [name, round(v.mean)]));
    };
    assert.equal((await means("CPU by mode, percent of one core")).iowait, 0.03);
    assert.deepEqual([(await means("Memory")).total, (await means("Memory"))["in use"]], [8 * 2 ** 30, 3 * 2 ** 30]);
    await page.goto(`${url}/?page=processes&from=${now - 300}&to=${now}`);
    assert.equal((await means(calls))[redis], 5800);
    assert.equal((await means(byCall)).writev, 900);
    assert.equal((await means("Context switches per second"))[redis], 1840);
    assert.equal((await means("Page faults per second"))[redis], 15);
    const inked = await chart(page, calls).locator("canvas").evaluate((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v !== 0));
    assert.ok(inked, "the canvas is blank");
    // The rest is the title and a legend of up to two lines.
    const part = await chart(page, calls).evaluate((panel) => panel.querySelector(".plot").getBoundingClientRect().height / panel.getBoundingClientRect().height);
    assert.ok(part >= 0.65, `the plot has ${part} of the height of its panel`);

    await page.goto(`${url}/?range=5m`);
    assert.equal((await means("CPU by process, percent of one core"))[redis], 0.3);
    assert.equal((await means("Threads that wait for a CPU, a disk or a lock, by process"))[redis], 0.05);
    await reached(page.locator("[data-tile]").first(), page.locator("[data-tile]:not([data-value=''])").first());
    await until("six tiles have a number", async () => (await page.locator("[data-tile]").evaluateAll((all) => all.filter((e) => e.dataset.value !== "" && Number.isFinite(Number(e.dataset.value))).length)) === 6);
    await page.getByRole("region", { name: "Verdict" }).getByText(/^Nothing wrong in the last/).waitFor();
    await page.goto(`${url}/?page=processes&range=5m`);
    // The rate of this one moves.
    await page.getByRole("combobox", { name: /Process filter/ }).fill("postgres");
    const last = async () => (await legend(page, calls)).postgres?.now;
    const before = await until("postgres has a value", last);
    await until("the last value moves on", async () => ![before, undefined].includes(await last()));
    await check();
  });

  test("the rate shown is the recorded one to the digit: filtered, after reload, in the dark", async () => {
    const search = `from=${now - 60}&to=${now}`;
    const { page, check } = await openPage(`${url}/?page=processes&${search}&process=${redis}`, { colorScheme: "dark" });
    for (const where of ["processes", "processes after reload"]) {
      await drawn(page, byCall);
      const shown = await legend(page, byCall);
      assert.deepEqual(Object.fromEntries(Object.entries(shown).map(([call, v]) => [call, round(v.mean)])), { read: 2000, write: 2000, epoll_wait: 1800 }, where);
      await page.reload();
    }
    await page.goto(`${url}/?page=processes&subject=${redis}&${search}`);
    await reached(page.getByRole("region", { name: "System calls by call" }), page.locator("#calls tr[data-call=read]"));
    for (const [call, rate] of [["read", 2000], ["write", 2000], ["epoll_wait", 1800]]) assert.equal(round(Number(await page.locator(`#calls tr[data-call=${call}] td[data-value]`).getAttribute("data-value"))), rate, call);
    assert.equal(await page.locator("[data-pids]").getAttribute("data-pids"), String(pids.get(redis)));
    await check();
  });

  test("the filter narrows, counts, and says when it is no expression", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m`);
    await drawn(page, calls);
    const field = page.getByRole("combobox", { name: /Process filter/ });
    await field.fill(redis.slice(0, 9));
    await page.getByText("1 match").waitFor();
    await until("one process is left", async () => Object.keys(await legend(page, calls)).join() === redis);
    assert.match(page.url(), new RegExp(`process=${redis.slice(0, 9)}`));
    await page.getByRole("option", { name: redis }).click();
    await until("the completion is in the address", () => page.url().includes("process=%5Eredis-"));
    await field.fill("red(");
    await page.getByText(/^Not a regular expression: missing closing \)\.$/).waitFor();
    assert.match(page.url(), /process=%5Eredis-/, "charts go on with the last expression");
    assert.equal(await page.getByRole("alert").count(), 0, "no chart complains of it");
    await field.fill("no-such-process");
    await chart(page, calls).getByText(/No samples of a process that matches no-such-process/).waitFor();
    // From an address there is no last expression: charts say what is wrong, without the query around it.
    await page.goto(`${url}/?page=processes&range=5m&refresh=0&process=red(`);
    await chart(page, calls).getByText(/Not a regular expression: missing closing \)\./).waitFor();
    assert.equal(await page.getByText("(?:").count(), 0);
    await check();
  });

  test("an answer about the filter does not undo what was typed since", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`);
    const clock = await driveClock(page, now);
    await page.goto(`${url}/?refresh=0`);
    await page.getByText(/^\d+ names?$/).waitFor();
    await clock.stop();
    let answer;
    const held = new Promise((resolve) => (answer = resolve));
    await page.route("**/label/process/values?**", async (r) => (await held, await r.continue()));
    const field = page.getByRole("combobox", { name: /Process filter/ });
    await field.fill("red");
    const asked = page.waitForRequest(/label\/process\/values.*red/);
    await clock.run(1, { wait: false });
    await asked;
    await field.fill("redi");
    answer();
    await until("the charts have the filter that was checked", () => new URL(page.url()).searchParams.get("process") === "red");
    assert.equal(await field.inputValue(), "redi");
    await clock.run(1);
    await until("and then the next one", () => new URL(page.url()).searchParams.get("process") === "redi");
    await page.unrouteAll({ behavior: "wait" });
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
    const { page, check } = await openPage(`${url}/?page=processes&range=15m&process=${redis}`);
    await drawn(page, calls);
    await drawn(page, "Page faults per second");
    // The ends of the axis, read with the keyboard:
    const ends = async () => {
      const spoken = [];
      for (const key of ["Home", "End"]) {
        await chart(page, calls).locator(".plot").press(key);
        spoken.push((await chart(page, calls).locator("[aria-live]").innerText()).slice(0, 8));
      }
      await page.keyboard.press("Escape");
      return spoken;
    };
    await page.getByRole("banner").getByRole("button", { name: "Pause" }).click(); // the axis stands still
    await drawn(page, calls);
    const [, end] = await ends();
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
    // The window is of whole seconds, the mouse of whole pixels.
    const slack = 2 + (2 * 900) / b.width;
    const last = secondsOf(end, to);
    assert.ok(Math.abs(to - from - 0.27 * 900) < slack, `27 % of an axis of 900 s, the window has ${to - from} s`);
    assert.ok(Math.abs(last - 0.005 * 900 - to) < slack, `the axis ends at ${last}, the window at ${to}`);
    await drawn(page, calls);
    await over.dblclick();
    await until("the live window is back", () => !page.url().includes("from="));
    await check();
  });

  test("empty, failing and slow answers each say so", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&process=${redis}`);
    await drawn(page, calls);
    // The loss of the monitor is reported once, and old content is distinguished from current.
    await page.route("**/api/**", (r) => r.abort());
    await page.getByRole("alert").getByText(/^The monitor has not answered since \d\d:\d\d:\d\d\. .*shows older data/).waitFor();
    await until("several refreshes have failed", () => page.evaluate(() => performance.getEntriesByType("resource").filter((e) => e.name.includes("/api/") && e.responseStatus === 0).length > 3));
    assert.equal(await page.getByRole("alert").count(), 1);
    const bar = page.getByRole("banner");
    await bar.getByRole("link", { name: "no answer" }).waitFor();
    await bar.getByRole("button", { name: "Pause: waiting" }).waitFor();
    assert.equal(await bar.getByRole("button", { name: /Data quality/ }).count(), 0, "nothing is known of the sources");
    assert.equal(await chart(page, calls).getAttribute("data-state"), "drawn", "old data stays");
    assert.ok(Number(await chart(page, calls).evaluate((e) => { let o = 1; for (; e; e = e.parentElement) o *= getComputedStyle(e).opacity; return o; })) < 0.7, "it is dimmed");
    await page.unroute("**/api/**");
    await until("the page is itself again", async () => (await page.getByRole("alert").count()) === 0);
    await bar.getByRole("button", { name: "Pause: live" }).waitFor();
    await bar.getByRole("button", { name: /Data quality/ }).waitFor();

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

  /** Lets answers arrive one by one, each when the page has drawn the one before: the order in which a machine gives
   * them does not matter. */
  const oneByOne = (page) => {
    const frames = () => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))).catch(() => {});
    let before = Promise.resolve();
    return page.route("**/api/**", (r) => {
      before = before.then(async () => {
        await r.fulfill({ response: await r.fetch({ timeout: patience }) });
        await frames();
      }).catch(() => {}); // the page has gone on
      return before;
    });
  };

  test("the buttons of the bar stand still while it fills", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`);
    await page.addInitScript(() => {
      window.places = {};
      const look = () => {
        for (const b of document.querySelectorAll(".topbar .ranges > button, .topbar .tools > button")) {
          const { left, top } = b.getBoundingClientRect();
          (window.places[b.innerText.trim() || b.ariaLabel] ??= new Set()).add(`${left}, ${top}`);
        }
        requestAnimationFrame(look);
      };
      look();
    });
    await oneByOne(page);
    for (const width of [390, 768, 1000, 1280, 1600]) {
      await page.setViewportSize({ width, height: 900 });
      await page.goto(`${url}/?range=5m&refresh=0`);
      await page.getByRole("button", { name: /^Data quality/ }).waitFor();
      await page.locator(".topbar .chip-link").waitFor();
      await filled(page);
      const places = await page.evaluate(() => Object.fromEntries(Object.entries(window.places).map(([name, all]) => [name, [...all]])));
      assert.ok(Object.keys(places).length >= 12, `${Object.keys(places)}`);
      assert.deepEqual(Object.entries(places).filter(([, all]) => all.length !== 1), [], `at ${width} pixels`);
    }
    await page.unrouteAll({ behavior: "wait" });
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
    await oneByOne(page);
    // A table shorter than its place, and one without any row.
    const short = [`processes&process=${redis}`, "processes&tab=containers&from=1000000000&to=1000000300"];
    for (const p of [...pages, ...tabs.map(([p, tab]) => `${p}&tab=${tab}`), `processes&subject=${redis}`, ...short]) {
      await page.goto(`${url}/?page=${p}&range=5m&refresh=0`);
      await page.locator("main h2").first().waitFor();
      await filled(page);
      // Two frames later the last shift is among the entries.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      const shifts = await page.evaluate(() => window.shifts);
      const sum = shifts.reduce((n, [value]) => n + value, 0);
      assert.ok(sum < 0.1, `${p} shifts by ${sum}: ${JSON.stringify(shifts.filter(([v]) => v > 0.01))}`);
    }
    await page.unrouteAll({ behavior: "wait" });
    await check();
  });

  for (const scheme of ["light", "dark"]) {
    test(`every page is accessible, ${scheme}`, async () => {
      // Charts outside the window are not requested.
      const { page, check } = await openPage(`${url}/?range=5m&refresh=0`, { viewport: { width: 1280, height: 3200 }, colorScheme: scheme });
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
      assert.equal(background[0] < 64, scheme === "dark", `background ${background}`);
      for (const p of [...pages, ...tabs.map(([p, tab]) => `${p}&tab=${tab}`), `processes&subject=${redis}`]) {
        await page.goto(`${url}/?page=${p}&range=5m&refresh=0`);
        await page.locator("main h2").first().waitFor();
        await filled(page);
        assert.deepEqual(await barriers(page), [], p);
        for (const width of [390, 768, 1440]) {
          await page.setViewportSize({ width, height: 3200 });
          await fits(page, `${p} at ${width} pixels`);
          if (width === 390) assert.deepEqual(await barriers(page), [], `${p}, ${width} pixels`);
        }
        await page.setViewportSize({ width: 1280, height: 3200 });
      }
      await check();
    });
  }

  test("the other pages are loaded ahead", async () => {
    const { page, check } = await openPage(`${url}/?range=5m&refresh=0`);
    const parts = ["processes", "tee", "machine", "benchmarks", "explore", "findings", "settings", "drawer"];
    await until("their programs are here", async () => {
      const loaded = await page.evaluate(() => performance.getEntriesByType("resource").map((e) => new URL(e.name).pathname.split("/").at(-1)));
      const lacks = parts.filter((p) => !loaded.some((file) => file.startsWith(`${p}-`) && file.endsWith(".js")));
      if (lacks.length > 0) throw new Error(`${lacks} of ${loaded}`);
      return true;
    });
    await page.route("**/*.js", (r) => r.abort());
    await page.getByRole("link", { name: "Machine", exact: true }).click();
    await drawn(page, "Memory");
    await check();
  });

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
      await fits(page, p);
    }
    await check();
  });

  test("the keyboard reaches everything", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0&process=${redis}`);
    await drawn(page, calls);
    const reached = [];
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      reached.push(await page.evaluate(() => { const e = document.activeElement; return (e.getAttribute("aria-label") ?? e.textContent).trim(); }));
    }
    for (const want of ["Skip to content", "Now", "Settings", "Process filter, a regular expression", "5m", "custom", "Data quality", "Pause", "Go to (Ctrl-K)", "Copy a link to this view and time", "Theme: system", `Menu of the chart ${calls}`, redis]) {
      assert.ok(reached.some((r) => r.startsWith(want)), `Tab does not reach ${want}; it reached ${reached.join(" | ")}`);
    }
    await chart(page, calls).locator(".plot").focus();
    await page.keyboard.press("ArrowLeft");
    await until("the values at the cursor are spoken", async () => (await chart(page, calls).locator("[aria-live]").innerText()).includes(redis));
    await page.getByRole("button", { name: `Menu of the chart ${calls}`, exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Open the query" }).waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: "Save as CSV" }).press("Enter");
    assert.match(readFileSync(await (await download).path(), "utf8"), new RegExp(`^time,.*${redis}`));
    await check();
  });

  test("Escape closes a drawer at once, wherever the focus is in it, and gives the focus back", async () => {
    const { page, check } = await openPage(`${url}/?range=5m&refresh=0`);
    const chip = page.getByRole("button", { name: /^Data quality/ });
    const reasons = page.getByRole("dialog", { name: "Data quality" });
    // Before any task that the click has left: on a busy page the key is the next event.
    await chip.evaluate(async (b) => {
      b.focus();
      b.click();
      for (let i = 0; i < 1000 && !document.querySelector(".drawer"); i++) await null;
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true }));
    });
    await reasons.waitFor({ state: "detached" });
    assert.equal(await chip.evaluate((b) => b === document.activeElement), true);
    await chip.click();
    await reasons.getByRole("button", { name: "Close" }).evaluate((b) => b.blur()); // as a link that a new answer took away
    await page.keyboard.press("Escape");
    await reasons.waitFor({ state: "detached" });
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
    await field.fill(redis);
    await page.getByRole("option", { name: redis }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: redis, exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    await field.waitFor();
    await page.keyboard.press("Escape");
    await field.waitFor({ state: "detached" });
    await check();
  });

  test("a monitor that has just started says so instead of that nothing is there", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    await context.route(/v1\/findings(\?|$)/, async (r) => {
      const answer = await (await r.fetch()).json();
      await r.fulfill({ json: { ...answer, summary: { ...answer.summary, youth: "The monitor started 5 s ago; the first answers take a minute." } } });
    });
    await context.route("**/api/teescope/v1/explain?*", (r) => r.fulfill({ status: 404, json: { error: "no process was seen" } }));
    await page.goto(`${url}/?page=processes&subject=${redis}&range=5m&refresh=0`);
    await page.getByText(/^The monitor started 5 s ago; the first answers take a minute\.$/).waitFor();
    assert.equal(await page.getByText("no process was seen").count(), 0);
    await check();
  });

  test("a part that does not load or cannot be drawn leaves the rest of the page", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`, { meant: /dynamically imported module|Cannot read properties of undefined/ });
    const explore = /\/assets\/explore-.*\.js/;
    await context.route(explore, (r) => r.fulfill({ status: 404 }));
    await page.goto(`${url}/?range=5m&refresh=0`);
    await page.getByRole("link", { name: "Explore" }).click();
    await page.getByRole("alert").getByText(/^The page Explore cannot be shown: /).waitFor();
    await page.getByRole("link", { name: "Machine", exact: true }).click();
    await page.locator("section.panel").first().waitFor();
    await page.getByRole("link", { name: "Explore" }).click();
    await context.unroute(explore);
    await page.getByRole("button", { name: "Reload" }).click();
    await page.locator(".cm-content").waitFor();

    await context.route(/v1\/explain\?/, (r) => r.fulfill({ json: {} })); // as another version could answer
    await page.goto(`${url}/?page=processes&process=${redis}&subject=${redis}&range=5m&refresh=0`);
    await page.getByRole("alert").getByText(/cannot be shown: /).waitFor();
    await page.getByRole("banner").waitFor();
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
    await page.getByRole("searchbox", { name: /Find a metric/ }).fill("samples_appended");
    await page.locator("[data-metric=teescope_store_samples_appended_total]").getByText("counter", { exact: true }).waitFor();
    await page.getByRole("searchbox", { name: /Find a metric/ }).fill("page_faults");
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
