// The pages' requests to the monitor, and the actions of a chart. The monitor plays back a host with
// a storm of system calls and two containers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { chart, cleanUp, drawn, driveClock, filled, missing, openPage, playBack, secondsOf, until } from "./harness.js";

const calls = "System calls per second";
const queries = "**/api/teescope/v1/queries";

describe("charts", { skip: missing({ root: false }) }, () => {
  let url;
  let first;
  let now;
  before(async () => {
    ({ url, first, now } = await playBack({ more: ["storm", "containers"] }));
  });
  after(cleanUp);

  /** Records the bodies of all query calls, and all other API requests. */
  const watch = (page) => {
    const asked = { queries: [], documents: [] };
    page.on("request", (r) => {
      const { pathname } = new URL(r.url());
      if (pathname.endsWith("/queries")) asked.queries.push(r.postDataJSON().queries);
      else if (pathname.includes("/api/")) asked.documents.push(pathname);
    });
    return asked;
  };

  test("a refresh is one call for new points, and a hidden page asks nothing", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`, { viewport: { width: 1280, height: 2400 } });
    const asked = watch(page);
    const clock = await driveClock(page, now - 900);
    await page.goto(`${url}/?page=machine&range=5m&refresh=5`);
    await drawn(page, "Memory");
    await filled(page);
    await clock.stop();
    await clock.run(5);
    asked.queries.length = asked.documents.length = 0;
    await clock.run(20);
    assert.equal(asked.queries.length, 4, "a call for each refresh");
    // The most frequent document is read every 15 s; two parts of the page request names of
    // processes.
    for (const d of new Set(asked.documents)) assert.ok(asked.documents.filter((x) => x === d).length <= (d.includes("/label/") ? 4 : 2), `documents: ${asked.documents}`);
    const whole = asked.queries.flat().filter((q) => q.step && !q.since);
    const parts = asked.queries.flat().filter((q) => q.since);
    assert.ok(parts.length > 10 * whole.length, `${parts.length} queries of new points and ${whole.length} of whole windows`);
    for (const q of parts) assert.ok(q.to - q.since <= 6 * q.step, `${q.query} asks for ${(q.to - q.since) / q.step} steps`);
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    // A refresh from before may still be drawn and ask: the clock stands, but drawing takes its time.
    await until("two refreshes of a hidden page ask nothing", async () => {
      asked.queries.length = asked.documents.length = 0;
      await clock.run(11);
      return asked.queries.length + asked.documents.length === 0;
    });
    await check();
  });

  test("what is off the screen is not asked for", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`, { viewport: { width: 1280, height: 500 } });
    const asked = watch(page);
    await page.goto(`${url}/?page=machine&range=5m&refresh=5`);
    await until("a chart is drawn", () => page.locator("section.panel[data-state=drawn]").count());
    const below = () => asked.queries.flat().filter((q) => q.query.includes("node_filesystem_avail_bytes"));
    assert.deepEqual(below(), []);
    await chart(page, "File systems, share in use").scrollIntoViewIfNeeded();
    await until("it is asked for", () => below().length > 0);
    await check();
  });

  test("answers that are slower than the refresh are shown, and asked for less often", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    let most = 0;
    const held = [];
    const clock = await driveClock(page, now - 900);
    await page.goto(`${url}/?page=processes&range=5m&refresh=5`);
    await drawn(page, calls);
    await filled(page);
    await clock.stop();
    await clock.run(5);
    await context.route(queries, (r) => {
      most = Math.max(most, held.push(r));
    });
    const last = () => chart(page, calls).locator("tbody tr[data-name=postgres]").getAttribute("data-now");
    const shown = [await last()];
    for (let i = 0; i < 3; i++) {
      await until("an answer is shown", async () => {
        await clock.run(7, { wait: false }); // longer than a refresh
        for (const r of held.splice(0)) await r.continue();
        return (await last()) !== shown.at(-1);
      });
      shown.push(await last());
    }
    assert.ok(most <= 2, `${most} calls at a time`);
    await context.unrouteAll({ behavior: "ignoreErrors" }); // one may still be held
    await check();
  });

  test("answers that are slower than the refresh are shown at the first load too", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    const title = "CPU by process, percent of one core";
    const held = [];
    const clock = await driveClock(page, now - 900);
    await context.route(queries, (r) => void held.push(r));
    await page.goto(`${url}/?range=5m&refresh=5`);
    await until("the page has asked", () => held.length > 0);
    await clock.stop();
    await until("the first chart is drawn", async () => {
      await clock.run(7, { wait: false }); // longer than a refresh
      for (const r of held.splice(0)) await r.continue();
      return (await page.locator(`section.panel[aria-label="${title}"][data-state=drawn]`).count()) > 0;
    });
    await context.unrouteAll({ behavior: "ignoreErrors" }); // one may still be held
    await check();
  });

  test("a query that fails is told on its chart alone", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    await context.route(queries, async (r) => {
      const body = r.request().postDataJSON();
      for (const q of body.queries) if (q.query.includes("tee_context_switches")) q.query = "sum(";
      await r.continue({ postData: JSON.stringify(body) });
    });
    await page.goto(`${url}/?page=processes&range=5m&refresh=0`);
    await chart(page, "Context switches per second").getByText(/parse error/).waitFor();
    await drawn(page, calls);
    await check();
  });

  test("without a clipboard of the browser, links and queries are copied all the same", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`);
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined }));
    await page.goto(`${url}/?page=processes&range=5m&refresh=0`);
    await drawn(page, calls);
    await page.evaluate(() => document.addEventListener("copy", () => (window.copied = document.activeElement.value)));
    await page.getByRole("button", { name: /Copy a link/ }).click();
    await page.getByText("Link copied").waitFor();
    assert.match(await page.evaluate(() => window.copied), /^http.*from=\d+&to=\d+/);
    await page.getByRole("button", { name: `Menu of the chart ${calls}`, exact: true }).click();
    await page.getByRole("menuitem", { name: "Copy the query" }).click();
    await page.getByText("Query copied").waitFor();
    assert.match(await page.evaluate(() => window.copied), /tee_syscalls_total/);
    // A picture cannot be copied, so it becomes a file.
    await page.getByRole("button", { name: `Menu of the chart ${calls}`, exact: true }).click();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: "Copy as a picture" }).click();
    assert.equal(readFileSync(await (await download).path()).subarray(1, 4).toString(), "PNG");
    await page.getByText(/The picture was saved as PNG instead\./).waitFor();
    await check();
  });

  test("a chart fills the screen, and its menu is there too", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0`);
    await drawn(page, calls);
    const menu = page.getByRole("button", { name: `Menu of the chart ${calls}`, exact: true });
    await menu.click();
    await page.getByRole("menuitem", { name: "Full screen, or back" }).click();
    const size = () => chart(page, calls).locator("canvas").evaluate((c) => [c.getBoundingClientRect().width / window.innerWidth, c.getBoundingClientRect().height / window.innerHeight]);
    await until("the chart is as large as the screen", async () => {
      const [width, height] = await size();
      return width > 0.9 && height > 0.7;
    });
    await menu.click();
    await page.getByRole("menuitem", { name: "Full screen, or back" }).click();
    await until("it is small again", async () => (await size())[1] < 0.4);
    await check();
  });

  const drag = async (page, from, to) => {
    const over = chart(page, calls).locator(".u-over");
    // A chart is drawn before it is visible, and the mouse reaches only visible elements. The
    // section stays while its plot is redrawn.
    await chart(page, calls).evaluate((section) => section.scrollIntoView({ block: "center" }));
    await drawn(page, calls);
    const b = await over.boundingBox();
    await page.mouse.move(b.x + b.width * from, b.y + 40);
    await page.mouse.down();
    await page.mouse.move(b.x + b.width * to, b.y + 50, { steps: 4 });
    await page.mouse.up();
  };

  test("zooming out after Back goes to where the shown window came from", async () => {
    const to = now;
    const { page, check } = await openPage(`${url}/?page=processes&from=${to - 60}&to=${to}&refresh=0`);
    await drawn(page, calls);
    const start = page.url();
    await drag(page, 0.2, 0.9);
    await until("it is zoomed", () => page.url() !== start);
    const once = page.url();
    await drawn(page, calls);
    await drag(page, 0.2, 0.8);
    await until("it is zoomed again", () => page.url() !== once);
    await page.goBack();
    await until("Back undoes the second zoom", () => page.url() === once);
    await drawn(page, calls);
    await chart(page, calls).locator(".u-over").dblclick();
    await until("zooming out undoes the first", () => page.url() === start);
    await chart(page, calls).locator(".u-over").dblclick();
    await until("and then there is the live window", () => !page.url().includes("from="));
    await check();
  });

  test("a chart is read and zoomed with the keyboard", async () => {
    const to = now;
    const { page, check } = await openPage(`${url}/?page=processes&from=${to - 100}&to=${to}&refresh=0`);
    await drawn(page, calls);
    await chart(page, calls).locator(".plot").focus();
    const spoken = () => chart(page, calls).locator("[aria-live]").innerText();
    const time = (t) => new Date(t * 1000).toTimeString().slice(0, 8);
    for (const [key, at] of [["End", to], ["ArrowLeft", to - 5], ["Home", to - 100], ["ArrowRight", to - 95]]) {
      await page.keyboard.press(key);
      await until(`${key} reads the values at ${time(at)}`, async () => (await spoken()).startsWith(time(at)));
    }
    assert.match(await chart(page, calls).locator(".tooltip").innerText(), /chatty-service/);
    await page.keyboard.press("Shift+ArrowRight");
    await page.keyboard.press("Control+Shift+ArrowRight");
    await page.keyboard.press("Enter");
    await until("the choice is the window", () => page.url().includes(`from=${to - 95}&to=${to - 40}`));
    await page.keyboard.press("Backspace");
    await until("the former window is back", () => page.url().includes(`from=${to - 100}&to=${to}`));
    await check();
  });

  test("the tooltip is sorted, and a click shows a line alone", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0`);
    await drawn(page, calls);
    await page.mouse.move(0, 0);
    await chart(page, calls).locator(".u-over").hover();
    const tips = chart(page, calls).locator("[data-tip]");
    await until("the tooltip has the lines", () => tips.count());
    assert.equal(await page.locator(".tooltip").count(), 1, "only the chart under the pointer has one");
    await page.getByRole("button", { name: "Show only chatty-service" }).first().click();
    await chart(page, calls).locator(".u-over").hover();
    await until("it has one line", async () => (await tips.count()) === 1);
    await page.getByRole("button", { name: "Show only chatty-service" }).first().click();
    await chart(page, calls).locator(".u-over").hover();
    await until("it has all again", async () => (await tips.count()) > 1);
    // Its calls are the most by far: its line is at 1 / 1.08 of the height.
    const over = chart(page, calls).locator(".u-over");
    await over.scrollIntoViewIfNeeded();
    const b = await over.boundingBox();
    const pressed = () => chart(page, calls).getByRole("button", { name: "Show only chatty-service" }).getAttribute("aria-pressed");
    for (const [want, lines] of [["true", "alone"], ["false", "with the others"]]) {
      await page.mouse.move(b.x + b.width / 2 - 5, b.y + b.height * (1 - 1 / 1.08));
      await page.mouse.move(b.x + b.width / 2, b.y + b.height * (1 - 1 / 1.08));
      await until("the cursor is there", () => tips.count());
      await page.mouse.down();
      await page.mouse.up();
      await until(`a click on the line shows it ${lines}`, async () => (await pressed()) === want);
    }
    await check();
  });

  test("a picture says what it shows", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0`);
    await drawn(page, calls);
    const get = async (item) => {
      await page.getByRole("button", { name: `Menu of the chart ${calls}`, exact: true }).click();
      const download = page.waitForEvent("download");
      await page.getByRole("menuitem", { name: item }).click();
      return readFileSync(await (await download).path());
    };
    const svg = (await get("Save as SVG")).toString();
    const machine = await page.locator("h1").innerText();
    for (const part of [calls, machine, " to ", "UTC", "chatty-service: "]) assert.ok(svg.includes(part), `${part} is not in ${svg.slice(0, 800)}`);
    const png = await get("Save as PNG");
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    assert.equal(png.readUInt32BE(16), 1920);
    await check();
  });

  test("times that make no window are refused with the reason", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0`);
    await page.getByRole("button", { name: "custom" }).click();
    const form = page.getByRole("dialog");
    await form.getByLabel("From").fill("2026-01-02T10:00:00");
    await form.getByLabel("To").fill("2026-01-02T09:00:00");
    await form.getByRole("button", { name: "Show" }).click();
    await form.getByText(/end is before the beginning/).waitFor();
    await form.getByLabel("To").fill("2026-01-02T10:00:04");
    await form.getByRole("button", { name: "Show" }).click();
    await form.getByText(/shorter than 10 s/).waitFor();
    await form.getByLabel("To").fill("2026-01-02T10:05:00");
    await form.getByRole("button", { name: "Show" }).click();
    await until("the window is shown", () => page.url().includes("from="));
    await page.goto(`${url}/?page=processes&from=1767348000&to=1767344400`);
    await page.getByText("The window in the address ends before it begins. The live window is shown instead.").waitFor();
    await page.goto(`${url}/?page=processes&from=1767344400&to=1767344404`);
    await page.getByText(/^The window in the address is shorter than 10 s/).waitFor();
    await check();
  });

  test("a storm of system calls is what the verdict says, with its process and call", async () => {
    const { page, check } = await openPage(`${url}/?range=5m`);
    await page.locator("[data-problem=vdso_bypass][data-subject=chatty-service]").waitFor();
    const verdict = page.getByRole("region", { name: "Verdict" });
    assert.match(await verdict.getByRole("heading").innerText(), /^1 problem: chatty-service asks? .*300,000 .*clock_gettime/);
    assert.equal(await verdict.getAttribute("data-level"), "critical");
    await verdict.getByRole("link").click();
    await page.getByRole("dialog").getByText("What to do.").waitFor();
    await check();
  });

  test("a dash in the table of containers has its reason", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&tab=containers&range=5m&refresh=0`);
    const cell = (name, column) => page.locator(`#containers tr[data-name=${name}] [data-column=${column}]`);
    await cell("web", "cpu").waitFor();
    for (const [name, cores] of [["web", 0.5], ["batch", 0.2]]) assert.ok(Math.abs(Number(await cell(name, "cpu").getAttribute("data-value")) - cores) < 1e-6, name);
    assert.deepEqual([await cell("web", "memory").innerText(), await cell("batch", "memory").innerText(), await cell("batch", "limit").innerText()], ["256 MiB", "–", "none"]);
    assert.equal(await cell("batch", "memory").getAttribute("title"), "No cgroup controller counts its memory.");
    await page.getByText(/– under Working set: no cgroup controller counts its memory\./).waitFor();
    await check();
  });

  test("the axis of a young monitor begins with its first reading", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=1h&refresh=0`);
    await drawn(page, calls);
    const plot = chart(page, calls).locator(".plot");
    await until("the axis begins with the first reading, which is on a step of 10 s", async () => {
      await plot.focus();
      await page.keyboard.press("Home");
      const begin = secondsOf((await chart(page, calls).locator("[aria-live]").innerText()).slice(0, 8), first);
      return begin - first >= 0 && begin - first <= 20;
    });
    await check();
  });
});
