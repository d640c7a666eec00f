// Explain, Findings, Explore and Dashboards: with a monitor that plays back a recorded host, and with
// constructed answers for what that host lacks.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { explanation, findings, hostile } from "./analysis.fixture.js";
import { barriers, change, chart, cleanUp, drawn, fits, missing, openPage, playBack, reached, seconds, tempDir, until, write } from "./harness.js";

const storm = "syscall:clock_gettime";

const redis = "redis-0001";

describe("analysis on the page", { skip: missing({ root: false }) }, () => {
  let url;
  let now;
  let pids;
  before(async () => {
    ({ url, now, pids } = await playBack());
  });
  after(cleanUp);

  const document = async (name) => (await fetch(`${url}/api/teescope/v1/${name}`)).json();

  /** A page with constructed explanations; asked records its requests. */
  async function explained(search, options) {
    const asked = [];
    const opened = await openPage(`${url}/-/healthy`, options);
    await opened.context.route("**/api/teescope/v1/explain?*", async (r) => {
      const q = new URL(r.request().url()).searchParams;
      asked.push(q);
      const [from, to] = [Number(q.get("from")), Number(q.get("to"))];
      await r.fulfill({ json: explanation(q.get("process"), { from, to, per: q.get("per") ?? "second", more: to > 1_700_000_700 ? 0.2 : 0 }) });
    });
    await opened.page.goto(`${url}/?${search}`);
    return { ...opened, asked };
  }

  test("process: it is chosen in the list, and its time adds up", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0&process=${redis}`);
    await page.locator(`#processes tr[data-name="${redis}"]`).getByRole("link").click();
    await page.locator(`[data-explained="${redis}"]`).waitFor();
    assert.ok(page.url().includes(`subject=${redis}`));
    const shares = await page.locator("tr[data-row][data-level='0'], tr[data-row=rest]").evaluateAll((rows) => rows.map((r) => [r.dataset.row, Number(r.dataset.share)]));
    const sum = shares.reduce((s, [, share]) => s + share, 0);
    assert.ok(shares.length > 1 && Math.abs(sum - 1) < 1e-9, `the rows and the rest are ${sum} of the time: ${JSON.stringify(shares)}`);
    assert.ok((await page.getByRole("region", { name: "Verdict" }).innerText()).includes(redis));
    await page.getByRole("heading", { name: `Where ${redis} spends its time` }).waitFor();
    const running = await page.locator("[data-pids]").getAttribute("data-pids");
    assert.deepEqual(running, String(pids.get(redis)), "the header has its process id");
    assert.ok(Math.abs(Number(await page.locator("[data-cpu]").getAttribute("data-cpu")) - 0.3) < 1e-9);
    for (const tab of ["Waits", "Page faults", "Input and output", "Findings", "Calls"]) {
      await page.getByRole("navigation", { name: `What ${redis} does` }).getByRole("link", { name: tab }).click();
      await until(`${tab} is shown`, async () => (await page.locator("section.panel, section.card").count()) > 1);
    }
    await reached(page.getByRole("region", { name: "System calls by call" }), page.locator("#calls tr[data-call=read]"));
    assert.deepEqual(await barriers(page), []);
    await check();
  });

  test("process: the bar has a part for each row, lights up its row, and opens into an icicle", async () => {
    const { page, check } = await explained("page=processes&subject=server&from=1700000000&to=1700000300");
    const part = page.locator(`[data-segment="${storm}"]`);
    await part.hover();
    await page.locator(`tr.lit[data-row="${storm}"]`).waitFor();
    await part.click();
    await page.locator(`[data-icicle="${storm}"] [data-cell="${storm}:entry"]`).waitFor();
    assert.deepEqual(await barriers(page), []);
    const widths = await page.locator("[data-segment]").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().width));
    const bar = await page.locator(".picture-bar").evaluate((e) => e.getBoundingClientRect().width);
    assert.ok(Math.abs(widths.reduce((a, b) => a + b, 0) - bar) < 2, `${widths} of ${bar}`);
    assert.match(await page.locator("[data-segment='the rest']").evaluate((e) => getComputedStyle(e).backgroundImage), /repeating-linear-gradient/);
    await page.getByRole("button", { name: "Waiting for locks: 11 %" }).focus();
    await page.keyboard.press("Enter");
    await page.locator("[data-icicle=lock]").waitFor();
    await check();
  });

  test("process: one that waits for a CPU says so first, and who takes it", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    await context.route("**/api/teescope/v1/explain?*", async (r) => {
      const q = new URL(r.request().url()).searchParams;
      await r.fulfill({ json: explanation(q.get("process"), { from: Number(q.get("from")), to: Number(q.get("to")), starved: Number(q.get("to")) > now - 3600 ? 0.6 : 0 }) });
    });
    await page.goto(`${url}/?page=processes&subject=server&range=5m&refresh=0`);
    await page.getByRole("heading", { name: /^server spends 60 % of its active time waiting for a free CPU/ }).waitFor();
    await page.locator("[data-rival]").first().getByRole("link").waitFor();
    assert.equal(await page.locator("[data-segment=queue]").evaluate((e) => e.className), "share-queue");
    await page.getByText("Compare with an earlier window").click();
    await page.getByRole("button", { name: "same time yesterday" }).click();
    await page.getByRole("heading", { name: /^server waits for a CPU: 60 % of its time; before: at most 1 % of its time\./ }).waitFor();
    await page.locator("tr[data-row=queue]").waitFor();
    await check();
  });

  test("explain: causes first, then rows by share, the rest last and hatched, and what does not hold", async () => {
    const { page, check } = await explained("page=processes&subject=server&from=1700000000&to=1700000300");
    await page.getByRole("heading", { name: "server spends 40 % of its time in clock_gettime." }).waitFor();
    await page.getByText("server waits 11 % of its time for locks.").waitFor();
    const order = await page.locator("table.cost tbody tr[data-row]").evaluateAll((rows) => rows.map((r) => r.dataset.row));
    assert.deepEqual(order, [storm, "own", "lock", "rest"]);
    assert.match(await page.locator("tr[data-row=rest] .share-fill").evaluate((e) => getComputedStyle(e).backgroundImage), /repeating-linear-gradient/);
    assert.equal(await page.locator("li[data-holds=false]").count(), 1);
    await page.getByText("Cache misses: the hypervisor hides the hardware counters.").waitFor();

    await page.getByRole("button", { name: "Show the rows of this cause" }).first().click();
    const inner = page.locator(`tr[data-row="${storm}:entry"]`);
    await inner.waitFor();
    assert.match(await inner.innerText(), /200 ns/);
    await page.getByText("A loop of calls on this host.").waitFor();
    await page.locator(`tr[data-row="${storm}"] + tr`).getByLabel("Query of calls per second").click();
    await page.getByRole("link", { name: `sum(rate(tee_syscalls_total{syscall="${storm}"}[1m]))` }).click();
    await page.locator(".cm-content").waitFor();
    const q = new URL(page.url()).searchParams;
    assert.deepEqual([q.get("page"), q.get("from"), q.get("to")], ["explore", "1700000000", "1700000300"]);
    await check();
  });

  test("explain: the keyboard opens rows", async () => {
    const { page, check } = await explained("page=processes&subject=server&from=1700000000&to=1700000300");
    const row = page.getByRole("button", { name: "System call clock_gettime", exact: true });
    await row.focus();
    await page.keyboard.press("Enter");
    await page.locator(`tr[data-row="${storm}:entry"]`).waitFor();
    assert.equal(await row.getAttribute("aria-expanded"), "true");
    await page.keyboard.press("Enter");
    await page.locator(`tr[data-row="${storm}:entry"]`).waitFor({ state: "detached" });
    await check();
  });

  test("explain: per request, and beside the window before", async () => {
    const { page, check, asked } = await explained("page=processes&subject=server&from=1700000600&to=1700000900");
    await page.getByRole("button", { name: "per request", exact: true }).click();
    await page.getByText("per request (").first().waitFor();
    assert.equal(asked.at(-1).get("per"), "request");
    await page.getByText("Compare with an earlier window").click();
    await page.getByRole("button", { name: "the window before" }).click();
    await page.getByRole("table", { name: /before and after/ }).waitFor();
    assert.match(page.url(), /per=request/, "what a request takes comes first");
    await page.getByRole("button", { name: "per second", exact: true }).click();
    await page.getByRole("columnheader", { name: /time per second/ }).waitFor();
    assert.ok(asked.some((q) => q.get("from") === "1700000300" && q.get("to") === "1700000600"), "the earlier window was asked for");
    const first = page.locator("table.cost tbody tr[data-row]").first();
    assert.equal(await first.getAttribute("data-row"), storm, "what changed most is first");
    assert.ok(Math.abs(Number(await first.getAttribute("data-difference")) - 0.2) < 1e-9);
    assert.match(await first.innerText(), /\+200 ms/);
    assert.match(await page.locator("[data-waiting]").innerText(), /^Waiting for a CPU: before at most .* of its time, after at most .* of its time\.$/, "waiting is always said");
    const address = page.url();
    await page.reload();
    await page.getByRole("table", { name: /before and after/ }).waitFor();
    assert.equal(page.url(), address);
    assert.deepEqual(await barriers(page), []);
    await page.getByRole("button", { name: "Do not compare" }).click();
    await page.getByRole("table", { name: /Where the time of server went/ }).waitFor();
    await check();
  });

  test("explain: two processes of one window stand side by side under their names", async () => {
    const { page, check, asked } = await explained("page=processes&subject=server&from=1700000600&to=1700000900");
    await page.getByRole("table", { name: /Where the time of server went/ }).waitFor();
    const field = page.getByRole("combobox", { name: "Process to compare with" });
    await field.fill("client");
    await field.press("Enter");
    await page.getByRole("table", { name: "Where the time went, client and server" }).waitFor();
    await page.getByRole("heading", { name: /^server, compared with client, / }).waitFor();
    assert.ok(asked.some((q) => q.get("process") === "client" && q.get("from") === "1700000600" && q.get("to") === "1700000900"), "the same window");
    assert.match(page.url(), /beside=client.*per=request/, "what a request takes comes first");
    await page.getByRole("columnheader", { name: /^client/ }).waitFor();
    assert.deepEqual(await barriers(page), []);
    await page.getByRole("button", { name: "Do not compare" }).click();
    await page.getByRole("table", { name: /Where the time of server went/ }).waitFor();
    await check();
  });

  test("explain: compared with the time before its finding", async () => {
    const { page, context, check, asked } = await explained("page=processes&subject=server&from=1700000600&to=1700000900&refresh=0");
    await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: findings(1_700_000_900, "server") }));
    await page.reload();
    await page.getByText("Compare with an earlier window").click();
    await page.getByRole("button", { name: "before this finding" }).click();
    // The finding began 120 s before the end of the window, which has 300 s.
    await until("the window before the finding is asked for", () => asked.some((q) => q.get("from") === "1700000480" && q.get("to") === "1700000780"));
    await page.getByRole("table", { name: /before and after/ }).waitFor();
    await check();
  });

  test("explain: the process filter narrows the processes to compare with", async () => {
    const { page, check } = await explained("page=processes&subject=server&range=5m&refresh=0&process=ngin");
    await page.getByRole("combobox", { name: "Process to compare with" }).click();
    await page.getByRole("option", { name: "nginx" }).waitFor();
    await until("it is the only one", async () => (await page.getByRole("option").count()) === 1);
    await check();
  });

  test("explain: a name of markup is text, an error says so and can be tried again", async () => {
    const { page, context, check } = await explained(`page=processes&subject=${encodeURIComponent(hostile)}&from=1700000000&to=1700000300`);
    await page.getByRole("heading", { name: `${hostile.slice(0, 28)}` }).first().waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    await context.route("**/api/teescope/v1/explain?*", (r) => r.fulfill({ status: 404, json: { error: "no series of that process" } }));
    await page.goto(`${url}/?page=processes&subject=nobody`);
    await page.getByRole("alert").getByText("no series of that process").waitFor();
    await context.unroute("**/api/teescope/v1/explain?*");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await check();
  });

  for (const [theme, width, height] of [["light", 1280, 900], ["dark", 1280, 900], ["light", 390, 844], ["dark", 390, 844]]) {
    test(`explain, findings and changes fit and are accessible, ${theme}, ${width} px`, async () => {
      const { page, context, check } = await explained(`page=processes&subject=server&from=1700000600&to=1700000900`, { viewport: { width, height }, colorScheme: theme });
      const judge = async (what) => {
        await fits(page, what);
        assert.deepEqual(await barriers(page), [], what);
      };
      await page.getByRole("button", { name: "Show the rows of this cause" }).first().click();
      await judge("the tree");
      await page.goto(`${url}/?page=processes&subject=server&from=1700000600&to=1700000900&beforeFrom=1700000300&beforeTo=1700000600`);
      await page.locator("tr[data-difference]").first().waitFor();
      await judge("the comparison");
      await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: findings(seconds(), redis) }));
      await page.goto(`${url}/?page=findings&range=5m&refresh=0`);
      await page.locator("article.finding").waitFor();
      await judge("the findings");
      await page.goto(`${url}/?page=findings&tab=history&range=5m&refresh=0`);
      await page.locator(".timeline li").first().waitFor();
      await judge("the history");
      await page.goto(`${url}/?range=5m&refresh=0&problem=${encodeURIComponent("a storm")}`);
      await page.getByRole("dialog").locator("article.finding").waitFor();
      await judge("a problem");
      await check();
    });
  }

  test("now: problems are rows, the worst first and linked, notes are folded, the monitor is a line", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    const now = seconds();
    const all = findings(now, redis);
    const [storm] = all.findings;
    const more = (id, rule, subject, o) => ({ ...storm, id, rule, subject, severity: "warning", title: `${subject} shows ${id}.`, share: undefined, ...o });
    all.findings.push(more("busy", "pressure", "machine"), more("throttled", "cpu_throttling", "web"), more("switches", "context_switch_storm", "db"), more("costly", "over_budget", "teescope", { role: "monitor" }), more("loss", "network_loss", "machine", { severity: "info" }));
    all.problems.push({ title: "CPU saturated: 2 effects, on web and db", severity: "warning", lead: "busy", since: storm.since, effects: ["throttled", "switches", "costly"] });
    all.summary.headline = `2 problems, the worst: ${storm.title}`;
    await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: all }));
    await page.goto(`${url}/?range=5m&refresh=0`);
    const rows = page.locator("[data-problem]");
    await rows.first().waitFor();
    assert.deepEqual(await rows.evaluateAll((list) => list.map((e) => e.dataset.problem)), ["syscall_storm", "pressure"]);
    await rows.nth(1).getByText("CPU saturated: 2 effects, on web and db").waitFor();
    assert.deepEqual(await rows.nth(1).locator("[data-effect]").evaluateAll((list) => list.map((e) => e.dataset.effect)), ["cpu_throttling", "context_switch_storm", "over_budget"], "the monitor adds to it");
    const verdict = page.getByRole("region", { name: "Verdict" });
    assert.match(await verdict.innerText(), /^2 problems, the worst: /);
    assert.equal(await verdict.getByText(/teescope shows/).count(), 0, "the monitor is no headline");
    await page.locator(".status-line").getByRole("link", { name: "teescope shows costly." }).waitFor();
    await page.locator(".notes").getByText("1 note").waitFor();
    assert.equal(await page.locator(".notes li").first().isVisible(), false);

    await verdict.getByRole("link").click();
    const drawer = page.getByRole("dialog");
    await drawer.getByText("make fewer calls", { exact: false }).waitFor();
    assert.match(page.url(), /problem=a\+storm/);
    assert.equal(await drawer.getByText("sum(rate(tee_syscalls_total[1m]))").isVisible(), false, "queries stand behind { }");
    await drawer.locator(".query-behind summary").first().click();
    await drawer.getByRole("link", { name: "sum(rate(tee_syscalls_total[1m]))" }).waitFor();
    assert.deepEqual(await barriers(page), []);
    await page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });
    assert.ok(!page.url().includes("problem="));
    await page.getByRole("banner").getByRole("link", { name: "2 problems" }).click();
    await page.locator("[data-listed]").first().waitFor();
    assert.equal(await page.locator("[data-listed]").count(), 7);
    await check();
  });

  test("findings: when, how sure, what it costs, and a way to explain them", async () => {
    const { page, context, check } = await openPage(`${url}/?page=findings&range=5m&refresh=0`);
    await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: findings(seconds(), redis) }));
    await page.reload();
    const open = page.locator("article[data-finding=syscall_storm]");
    await open.getByText("0.4 of a core, all the time.").waitFor();
    await open.getByText(/or a sign that may have another cause/).waitFor();
    await page.getByText("2 of 3 checks ran; 1 lacks data here.").waitFor();
    await page.getByRole("link", { name: "History" }).click();
    const bars = await page.locator(".timeline-bar").evaluateAll((list) => list.map((e) => [e.getAttribute("aria-label").split(",")[0], e.offsetHeight, e.offsetWidth]));
    assert.deepEqual(bars.map(([level]) => level).sort(), ["critical", "info", "warning"]);
    assert.equal(new Set(bars.map(([, tall]) => tall)).size, 3, "severity is told by shape as well");
    assert.equal(await page.locator("main img").count(), 0, "a hostile name is text");
    await page.getByRole("link", { name: "Checks" }).click();
    await page.locator("tr[data-answer='cannot tell']").getByText(/No series of tee_sgx_epc_pages_evicted_total/).waitFor();
    await page.locator("tr[data-rule=syscall_storm][data-level=critical] .chip-bad").waitFor();
    await page.getByRole("link", { name: /^Open/ }).click();
    await open.getByRole("link", { name: `Explain ${redis} for this time` }).click();
    await page.locator(`[data-explained="${redis}"]`).waitFor();
    assert.match(page.url(), /from=\d+&to=\d+/);
    await check();
  });

  test("findings: a check that found a note is not red", async () => {
    const { page, context, check } = await openPage(`${url}/-/healthy`);
    const all = findings(seconds(), redis);
    all.findings[0].severity = "info";
    await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: all }));
    await page.goto(`${url}/?page=findings&tab=checks&range=5m&refresh=0`);
    await page.locator("tr[data-rule=syscall_storm][data-level=info]").waitFor();
    assert.equal(await page.locator("tr[data-rule] .chip-bad, tr[data-rule] .chip-warn").count(), 0);
    await check();
  });

  test("findings: bars and links lead to closed findings, and evidence gives their numbers again", async () => {
    const { page, context, check } = await openPage(`${url}/?page=findings&tab=history&range=5m&refresh=0`);
    const all = findings(seconds(), redis);
    const past = { ...all.findings[1], id: "long past", title: "a finding of last week" };
    await context.route(/v1\/findings(\?|$)/, (r) => {
      const id = new URL(r.request().url()).searchParams.get("id");
      return r.fulfill({ json: id === null ? all : { ...all, findings: id === past.id ? [past] : [] } });
    });
    await page.reload();
    const closed = page.locator("article[data-finding=lock_contention]");
    await page.locator(".timeline-bar[aria-label^=warning]").click();
    await closed.waitFor();
    await closed.locator("section.panel").scrollIntoViewIfNeeded();
    await closed.locator("section.panel[data-state=drawn]").waitFor(); // the chart of its time, which is over
    await closed.locator(".query-behind summary").first().click();
    await closed.locator(".evidence a").first().click();
    await page.locator(".cm-content").waitFor();
    const to = Number(new URL(page.url()).searchParams.get("to"));
    assert.ok(Math.abs(to - Date.parse(all.findings[1].lastSeen) / 1000) < 0.002, `the window ends at ${to}`);

    await page.goto(`${url}/?page=findings&range=5m&refresh=0&subject=${encodeURIComponent(past.id)}`);
    await closed.getByRole("heading", { name: past.title }).waitFor();
    await page.goto(`${url}/?page=findings&range=5m&refresh=0&subject=nowhere`);
    await page.getByText(/no longer on record/).waitFor();
    await page.getByRole("banner").getByRole("link", { name: /problem/ }).click();
    await page.getByText(/no longer on record/).waitFor({ state: "detached" });
    await check();
  });

  test("findings: a silence is made with a reason, listed, and ended", async () => {
    const { page, context, check } = await openPage(`${url}/?page=findings&range=5m&refresh=0`);
    await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: findings(seconds(), redis) }));
    await page.reload();
    await page.locator("article[data-finding=syscall_storm]").getByRole("button", { name: "Silence" }).click();
    const began = seconds();
    const form = page.getByRole("form", { name: /^Silence System call storm/ });
    await form.getByRole("combobox", { name: "for" }).selectOption("1 hour");
    await form.getByRole("textbox", { name: "because" }).fill("a test <b>of</b> silences");
    await form.getByRole("button", { name: "Silence" }).click();
    await form.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Checks" }).click();
    const line = page.locator("[data-silence]").filter({ hasText: "a test <b>of</b> silences" });
    await line.waitFor();
    const [kept] = (await document("silences")).silences;
    assert.equal(kept.rule, "syscall_storm");
    assert.match(redis, new RegExp(`^(?:${kept.subject})$`));
    const made = Date.parse(kept.until) / 1000 - 3600;
    assert.ok(made >= began - 1 && made <= seconds() + 1, `it ends at ${kept.until}`);
    await line.getByRole("button", { name: /^End the silence/ }).click();
    await line.waitFor({ state: "detached" });
    assert.deepEqual((await document("silences")).silences ?? [], []);
    await check();
  });

  test("processes: the heat map shows who makes which calls, and leads to the process", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m&refresh=0&process=${redis}`);
    const title = "System calls per second, by process and call";
    await drawn(page, title);
    const cell = chart(page, title).locator(`tr[data-name="${redis}"] td[data-column=read]`);
    assert.ok(Math.abs(Number(await cell.getAttribute("data-value")) - 2000) < 1e-6, `${await cell.getAttribute("data-value")} reads per second`);
    assert.match(await cell.getAttribute("class"), /heat-\d/);
    assert.match(await cell.getAttribute("title"), new RegExp(`${redis}, read: .*per second`));
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: `Menu of the chart ${title}` }).click();
    await page.getByRole("menuitem", { name: "Save as CSV" }).click();
    assert.match(readFileSync(await (await download).path(), "utf8"), new RegExp(`^process,.*\n${redis},\\d`));
    await chart(page, title).getByRole("link", { name: redis }).click();
    await reached(page.getByRole("region", { name: "System calls by call" }), page.locator("#calls"));
    await check();
  });

  test("explore: metrics complete, the answer is shared by its address", async () => {
    const { page, check } = await openPage(`${url}/?page=explore&range=5m`);
    const editor = page.locator(".cm-content");
    await editor.click();
    await page.keyboard.type("sum(rate(tee_sysc");
    await page.locator(".cm-tooltip-autocomplete [role=option]").filter({ hasText: "tee_syscalls_total" }).click();
    assert.match(await editor.innerText(), /sum\(rate\(tee_syscalls_total\)\)/);
    await write(editor, "sum(rate(tee_syscalls_total[20s]))");
    await editor.press("Enter");
    await drawn(page, "Over the time range");
    await page.reload();
    await drawn(page, "Over the time range");
    assert.match(await editor.innerText(), /tee_syscalls_total\[20s\]/);
    await check();
  });

  test("explore: the distribution of a query, window by window", async () => {
    const { page, check } = await openPage(`${url}/?page=explore&tab=distribution&range=5m&refresh=0&expr=${encodeURIComponent(`sum(rate(tee_syscalls_total{process="${redis}"}[20s]))`)}`);
    await drawn(page, "Distribution of the values");
    await page.getByRole("combobox", { name: "Number of windows" }).selectOption("one box");
    const medians = page.locator("g[data-median]");
    await until("one box", async () => (await medians.count()) === 1);
    assert.ok(Math.abs(Number(await medians.first().getAttribute("data-median")) - 5800) < 1e-6);
    assert.deepEqual(await barriers(page), []);
    await check();
  });

  test("explore: what changed between two windows is ranked, among all series", async () => {
    const windows = { from: now - 300, to: now, beforeFrom: now - 600, beforeTo: now - 300 };
    const { page, check } = await openPage(`${url}/?${new URLSearchParams({ page: "explore", tab: "changes", refresh: "0", ...windows })}`);
    await page.getByText(/series changed beyond/).waitFor();
    assert.deepEqual(await barriers(page), []);
    const { compared, changes } = await document(`changes?${new URLSearchParams(windows)}`);
    assert.ok(compared > 10, `${compared} series compared`);
    await page.getByText(new RegExp(`of ${compared} series changed`)).waitFor();
    const shown = await page.locator("#change-list tbody tr").evaluateAll((rows) => rows.map((r) => r.dataset.metric));
    assert.deepEqual(shown.slice(0, 5), changes.slice(0, 5).map((c) => c.metric));
    await check();
  });

  test("dashboards: panels of every kind are made, moved, changed, exported and imported", async () => {
    const { page, check } = await openPage(`${url}/?page=explore&tab=dashboards&range=5m`);
    const form = page.locator(".panel-form");
    const fill = async (title, kind, expr) => {
      await form.getByRole("textbox", { name: "Title" }).fill(title);
      await write(form.locator(".cm-content"), expr);
      await form.getByRole("combobox", { name: "Drawn as" }).selectOption(kind);
      await form.getByRole("button", { name: "Save" }).click();
      await form.waitFor({ state: "detached" });
    };
    const titles = () => page.locator(".board section.panel").evaluateAll((list) => list.map((e) => e.getAttribute("aria-label")));
    await page.getByRole("button", { name: "New dashboard" }).click();
    await form.getByRole("textbox", { name: "Dashboard" }).fill("Mine");
    await form.getByRole("textbox", { name: "Title" }).fill("bad");
    await write(form.locator(".cm-content"), "sum(");
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByRole("alert").getByText(/parse error/).waitFor();
    const calls = `sum by (syscall) (rate(tee_syscalls_total{process="${redis}"}[20s])) > 1`;
    await fill("as graph", "graph", calls);
    for (const kind of ["area", "histogram", "gauge", "value", "table", "heatmap", "boxplot"]) {
      await page.getByRole("button", { name: "Add a panel" }).click();
      await fill(`as ${kind}`, kind, calls);
    }
    for (const kind of ["graph", "area", "histogram", "gauge", "value", "table", "heatmap", "boxplot"]) {
      await chart(page, `as ${kind}`).scrollIntoViewIfNeeded();
      await drawn(page, `as ${kind}`);
    }
    await fits(page);
    assert.deepEqual(await barriers(page), []);

    await page.getByRole("button", { name: "Arrange and edit" }).click();
    await page.getByRole("button", { name: "Move back as graph" }).click();
    await until("the panels are in another order", async () => (await titles()).slice(0, 2).join() === "as area,as graph");
    await page.getByRole("button", { name: "Delete as area" }).click();
    await until("a panel is gone", async () => (await titles())[0] === "as graph");
    await page.getByRole("button", { name: "Edit as graph" }).click();
    await form.getByRole("textbox", { name: "Title" }).fill("renamed");
    await form.getByRole("button", { name: "Save" }).click();
    await chart(page, "renamed").waitFor();
    const kept = await document("dashboards");
    assert.deepEqual(kept.dashboards.map((d) => [d.name, d.panels.length, d.panels[0].title]), [["Mine", 7, "renamed"]]);

    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export all" }).click();
    const file = path.join(tempDir(), "dashboards.json");
    writeFileSync(file, readFileSync(await (await download).path()));
    await page.getByLabel("Import dashboards from a file").setInputFiles(file);
    await page.getByRole("heading", { name: "Mine 2" }).waitFor();
    writeFileSync(file, "{}");
    await page.getByLabel("Import dashboards from a file").setInputFiles(file);
    await page.getByRole("alert").getByText(/no list/).waitFor();
    await check();
  });

  test("dashboards: who changes what somebody else has changed meanwhile is told, and nothing is lost", async () => {
    const put = (...names) => change(url, "PUT", "dashboards", { dashboards: names.map((name) => ({ name, panels: ["one", "two"].map((title) => ({ title, query: "vector(1)", unit: "", kind: "value" })) })) });
    const kept = async () => (await document("dashboards")).dashboards.map((d) => [d.name, ...d.panels.map((p) => p.title)].join());
    await put("Ours");
    const { page, check } = await openPage(`${url}/?page=explore&tab=dashboards&range=5m&refresh=0`);
    await page.getByRole("button", { name: "Arrange and edit" }).click();
    await put("Theirs", "Ours");
    await page.getByRole("button", { name: "Delete one" }).click();
    await page.getByRole("alert").getByText(/Nothing was saved, because somebody else changed the dashboards/).waitFor();
    await page.getByRole("link", { name: "Theirs", exact: true }).waitFor(); // the present version
    assert.deepEqual(await kept(), ["Theirs,one,two", "Ours,one,two"]);
    await page.getByRole("button", { name: "Delete one" }).click();
    await chart(page, "one").waitFor({ state: "detached" });
    assert.deepEqual(await kept(), ["Theirs,one,two", "Ours,two"]);

    // The typed text stays, and goes to its own dashboard.
    const form = page.getByRole("form", { name: "Panel two" });
    await page.getByRole("button", { name: "Edit two" }).click();
    await form.getByRole("textbox", { name: "Title" }).fill("mine");
    await put("Theirs");
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByRole("alert").getByText(/somebody else changed the dashboards/).waitFor();
    assert.deepEqual(await kept(), ["Theirs,one,two"]);
    await form.getByRole("button", { name: "Save" }).click();
    await chart(page, "mine").waitFor();
    assert.deepEqual(await kept(), ["Theirs,one,two", "Ours,mine"]);
    await check();
  });

  test("charts mark findings, and lead to the explanation of their window", async () => {
    const now = seconds();
    const { page, context, check } = await openPage(`${url}/?page=processes&process=${redis}&range=5m&refresh=0`);
    await context.route("**/api/teescope/v1/annotations?*", (r) => r.fulfill({ json: [{ id: "a storm", time: (now - 100) * 1000, timeEnd: now * 1000, title: `${hostile}: syscall_storm`, text: `${hostile} makes 500 k/s system calls.`, tags: ["syscall_storm", "critical"] }] }));
    await context.route(/v1\/findings(\?|$)/, (r) => r.fulfill({ json: findings(now, redis) }));
    await page.reload();
    const title = "System calls per second";
    await drawn(page, title);
    await chart(page, title).getByText(`${hostile.slice(0, 28)}`).waitFor();
    const red = await chart(page, title).locator("canvas").evaluate((c) => {
      const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue("--bad").match(/[0-9a-f]{2}/g).map((h) => Number.parseInt(h, 16));
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) if ([r, g, b].every((v, k) => Math.abs(data[i + k] - v) < 4) && data[i + 3] === 255) n++;
      return n;
    });
    assert.ok(red > 50, `${red} pixels of the mark`);
    await page.getByRole("button", { name: `Menu of the chart ${title}`, exact: true }).click();
    await page.getByRole("menuitem", { name: "Processes in this window" }).click();
    await until("the window is fixed", () => /page=processes&from=\d+/.test(page.url()));
    const other = "Context switches per second"; // which a server always has, unlike page faults
    await drawn(page, other);
    assert.equal(await chart(page, other).locator(".mark-line").count(), 0, "its metric is no evidence");
    const lane = page.getByRole("group", { name: "Findings of this window" }).getByRole("link");
    assert.equal(await lane.count(), 1, "the lane has it too");
    assert.match(await lane.getAttribute("title"), /makes 500 k\/s system calls\.$/, "in words, without the rule's id");
    await check();
  });
});
