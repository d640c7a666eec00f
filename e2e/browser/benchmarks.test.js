// The page's benchmarks: results of real runs, and one run here next to a monitor that plays back a
// recorded host.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { binary, chart, cleanUp, drawn, missing, openPage, playBack, tempDir, until } from "./harness.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const recorded = fileURLToPath(new URL("testdata/results", import.meta.url));
const read = (name) => JSON.parse(readFileSync(path.join(recorded, `${name}.json`), "utf8"));

// wide names what reaches beyond the screen and does not scroll in a box of its own.
const wide = (page, scrolls = ".scroll, .hidden, svg") =>
  page.evaluate((scrolls) => {
    const past = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1 && !e.closest(scrolls));
    return [document.documentElement.scrollWidth > window.innerWidth ? ["the page"] : [], ...past.slice(0, 5).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 60)}`)].flat();
  }, scrolls);

describe("benchmarks", { skip: process.env.TEESCOPE_URL ? "needs a monitor of its own" : missing() }, () => {
  const data = tempDir();
  const [ladder, native, gvisor, sevenzip] = ["startup-ladder", "startup-native", "startup-gvisor", "cpu-7zip"].map(read);
  let url;
  const at = (...query) => `${url}/?${["page=benchmarks", "refresh=0", ...query].join("&")}`;
  const detail = (e, ...query) => at(`subject=${e.experiment_id}`, ...query);
  const lines = (page) => page.getByRole("list", { name: "Results" }).getByRole("listitem").and(page.locator("[data-result]"));

  before(async () => {
    cpSync(recorded, path.join(data, "results"), { recursive: true });
    writeFileSync(path.join(data, "results", "torn.json"), readFileSync(path.join(recorded, "cpu-7zip.json"), "utf8").slice(0, 5000));
    ({ url } = await playBack({ data }));
  });
  after(cleanUp);

  test("the list says the verdict first and names the files that it cannot read", async () => {
    const { page, check } = await openPage(at());
    await until("four results", async () => (await lines(page).count()) === 4);
    const line = page.locator(`[data-result="${ladder.experiment_id}"]`);
    const telling = ladder.comparisons.filter((c) => c.primary && c.verdict !== "invalid").sort((a, b) => b.cost_ratio - a.cost_ratio)[0];
    // The page words the headline anew from the comparison: the document is of an older version.
    const ratio = `${telling.treatment} costs ${Number(telling.cost_ratio.toPrecision(3))}x [`;
    assert.ok((await line.getByRole("heading").innerText()).startsWith(ratio), ratio);
    assert.equal(await line.getAttribute("data-verdict"), telling.verdict);
    await line.getByText("8 pairs, 24 runs").waitFor();
    await line.getByText("native, container, runsc").waitFor();
    await line.getByText(ladder.commit.id.slice(0, 12)).waitFor();
    await page.locator(`[data-result="${native.experiment_id}"]`).getByText("no verdict").waitFor();
    await page.getByText(/torn\.json/).waitFor();
    await check();
  });

  test("the matrix has the newest result of each workload and environment, and leads to it", async () => {
    const { page, check } = await openPage(at());
    const cell = (workload, treatment) => page.locator(`tr[data-workload="${workload}"] td[data-treatment="${treatment}"]`);
    const c = ladder.comparisons.find((c) => c.primary && c.treatment === "runsc" && c.baseline === "native");
    const shown = await cell("startup", "runsc").first().innerText();
    assert.ok(shown.includes(`${Number(c.cost_ratio.toPrecision(3))}x [`) && shown.includes(`grade ${c.grade}`), shown);
    await cell("startup", "runsc").first().getByRole("link").click();
    await page.getByRole("region", { name: /^Verdict/ }).first().waitFor();
    assert.ok(page.url().includes(`subject=${ladder.experiment_id}`));
    await check();
  });

  test("filters narrow the list and live in the address", async () => {
    const { page, check } = await openPage(at());
    await page.getByRole("combobox", { name: "Workload" }).selectOption("cpu-7zip");
    await until("one result", async () => (await lines(page).count()) === 1);
    assert.ok(page.url().includes("workload=cpu-7zip"));
    await page.reload();
    await page.getByText("1 of 4 results").waitFor();
    assert.equal(await page.getByRole("combobox", { name: "Workload" }).inputValue(), "cpu-7zip");
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("searchbox", { name: "Text in results" }).fill("runsc costs");
    await until("the headline is searched", async () => (await lines(page).count()) === 1 && page.url().includes("text=runsc"));
    await page.getByRole("searchbox", { name: "Text in results" }).fill("no such thing");
    await page.getByText("No result passes these filters").waitFor();
    await page.goto(at("verdict=none", "environment=runsc"));
    await until("both filters hold", async () => (await lines(page).count()) === 1);
    await check();
  });

  test("an empty list says how to get a result", async () => {
    const { page, check } = await openPage(`${url}/-/healthy`);
    await page.route("**/api/teescope/v1/results", (r) => r.fulfill({ json: { results: [] } }));
    await page.goto(at());
    await page.getByText(`teescope bench run startup --env native --env runsc --data ${data}`, { exact: true }).waitFor();
    await page.getByRole("button", { name: /^Copy the command/ }).waitFor();
    await check();
  });

  test("a result shows its verdict, and every figure in text", async () => {
    const { page, check } = await openPage(at());
    await page.locator(`[data-result="${ladder.experiment_id}"]`).getByRole("link").click();
    assert.ok((await page.getByRole("region", { name: /^Verdict/ }).first().innerText()).includes("runsc costs"));
    const forest = page.getByRole("img", { name: "Cost ratio of each comparison, with its interval" });
    await forest.waitFor();
    // The description states every row in text; each ratio has a mark with its value.
    const said = (await forest.locator("desc").textContent()).split(". ");
    const drawnRows = ladder.comparisons.filter((c) => c.cost_ratio !== null || c.primary).length;
    assert.equal(said.length, drawnRows);
    const marks = (await forest.locator(":scope > :not(desc) > title").allTextContents()).filter((t) => !t.startsWith("published"));
    assert.equal(marks.length, ladder.comparisons.filter((c) => c.cost_ratio !== null).length);
    const c = ladder.comparisons.find((c) => c.primary && c.treatment === "runsc" && c.baseline === "native");
    const row = said.find((t) => /^startup, runsc: /.test(t));
    assert.match(row, /cost, material/);
    assert.ok(marks.some((t) => row.startsWith(t)), row);
    const shown = /([\d.]+)x \[([\d.]+), ([\d.]+)\]/.exec(row).slice(1).map(Number);
    for (const [i, want] of [c.cost_ratio, c.cost_ci_low, c.cost_ci_high].entries()) assert.ok(Math.abs(shown[i] / want - 1) < 0.006, `${shown[i]} is shown, the document has ${want}`);
    const layers = await page.getByRole("img", { name: /^What each layer adds/ }).locator(":scope > path > title").allTextContents();
    assert.equal(layers.length, 3, layers.join());
    const runs = await page.getByRole("img", { name: /^All runs: startup/ }).locator(":scope > * > title").allTextContents();
    const ids = ladder.runs.filter((r) => r.status === "ok").map((r) => r.run_id);
    assert.deepEqual(runs.map((t) => t.split(": ")[0]).filter((t) => ids.includes(t)).sort(), ids.sort());
    await page.getByRole("combobox", { name: "Metric" }).selectOption("load_seconds");
    await page.getByRole("img", { name: /^All runs: load/ }).waitFor();
    await page.getByRole("group", { name: "Spread of load" }).getByRole("row", { name: /^native / }).waitFor();
    const tab = (name) => page.getByRole("navigation", { name: "Parts of the result" }).getByRole("link", { name }).click();
    await tab("Why");
    await page.getByRole("img", { name: /^Counters per run/ }).waitFor();
    await page.getByRole("group", { name: "Counters per run" }).getByRole("row", { name: /syscalls/ }).first().waitFor();
    await page.getByRole("region", { name: "What differs between the environments" }).waitFor();
    await chart(page, "Runs, by environment").scrollIntoViewIfNeeded();
    // These runs were long before the monitor of this test.
    await page.getByText("The monitor did not run in this window").waitFor();
    await tab("Trust");
    for (const title of ["Warnings and refusals", "How it was measured", "What the harness itself costs"]) await page.getByRole("region", { name: title }).waitFor();
    const nullRun = await page.getByRole("region", { name: "What the harness itself costs" }).getByRole("row", { name: /^container/ }).getByTitle(/^mean /).getAttribute("title");
    assert.ok(nullRun.startsWith(`mean ${ladder.environments[1].null_run_seconds.mean}`), nullRun);
    await tab("Reproduce");
    await page.getByRole("region", { name: "How to do it again" }).getByText("teescope bench run startup --env native --env container --env runsc", { exact: false }).waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: /Download the document/ }).click();
    assert.equal(JSON.parse(readFileSync(await (await download).path(), "utf8")).experiment_id, ladder.experiment_id);
    await check();
  });

  test("a sweep shows efficiency and absolute cost", async () => {
    const { page, check } = await openPage(detail(sevenzip));
    const scaling = page.getByRole("region", { name: "Scaling" });
    for (const title of ["efficiency of each arm by itself", "cost against native"]) await scaling.getByRole("img", { name: /over threads/ }).getByText(title, { exact: true }).waitFor();
    const two = await scaling.getByRole("row", { name: /^2 / }).innerText();
    const c = sevenzip.comparisons.find((c) => c.primary && c.case.includes("threads=2"));
    if (c.cost_ratio !== null) assert.ok(two.includes(`${(Math.abs(c.cost_ratio - 1) < 0.1 ? c.cost_ratio.toFixed(3) : Number(c.cost_ratio.toPrecision(3)))}x`), two);
    assert.match(two, /\d %/);
    await check();
  });

  test("results of one job stand side by side, others are refused with the reason", async () => {
    const { page, check } = await openPage(at());
    const tick = (e) => page.locator(`[data-result="${e.experiment_id}"]`).getByRole("checkbox").check();
    await tick(native);
    await page.getByText(/1 result selected/).waitFor();
    await tick(gvisor);
    await page.getByRole("link", { name: "Put 2 results side by side" }).click();
    await page.getByRole("heading", { name: "2 results side by side" }).waitFor();
    assert.match(await page.getByRole("region", { name: /^Verdict/ }).first().innerText(), /runsc .*native[^]*grade B/);
    await page.getByRole("link", { name: "Trust" }).click();
    await page.getByText("results of separate runs, not paired").waitFor();
    await page.goBack();
    await page.goBack();
    await page.getByRole("link", { name: "Put 2 results side by side" }).waitFor();
    await tick(sevenzip);
    await page.getByRole("link", { name: "Put 3 results side by side" }).click();
    await page.getByText(/different jobs and cannot be compared.*workload/).waitFor();
    await page.goto(at("subject=nowhere"));
    await page.getByRole("heading", { name: "This result cannot be shown" }).waitFor();
    await check();
  });

  test("a run beside the monitor has the monitor's charts of its window, under one cursor", async () => {
    const ran = spawnSync(binary, ["bench", "run", "startup", "--env", "native", "--env", "same=native", "--quick", "--data", data], { encoding: "utf8" });
    assert.equal(ran.error, undefined);
    const { results } = await (await fetch(`${url}/api/teescope/v1/results`)).json();
    assert.equal(results.length, 5, `${ran.stdout}${ran.stderr}`);
    const doc = await (await fetch(`${url}/api/teescope/v1/results/${results[0].id}`)).json();
    const { page, check } = await openPage(at(`subject=${results[0].id}`, "tab=why").replace("refresh=0", "refresh=5"), { viewport: { width: 1280, height: 3600 } });
    const timeline = chart(page, "Runs, by environment");
    await until("a bar for each run", async () => (await timeline.locator("[data-run]").count()) === doc.runs.length);
    for (const title of ["System calls per second", "Context switches per second", "Page faults per second", "CPU, percent of one core"]) await drawn(page, title);
    await timeline.getByRole("group").focus();
    await page.keyboard.press("ArrowRight");
    await until("the run is spoken", async () => (await timeline.locator("[aria-live]").innerText()).startsWith(doc.runs.toSorted((a, b) => a.started_at.localeCompare(b.started_at))[0].run_id));
    await until("the charts show that moment", async () => /\d\d:\d\d:\d\d/.test(await chart(page, "System calls per second").locator("thead").innerText()));
    await check();
  });

  for (const scheme of ["light", "dark"]) {
    test(`list, result and comparison are accessible, ${scheme}`, async () => {
      const views = [at(), ...["result", "why", "trust", "reproduce"].map((tab) => detail(ladder, `tab=${tab}`)), detail(sevenzip), at(`subject=${native.experiment_id}`, `beside=${gvisor.experiment_id}`), at(`subject=${native.experiment_id}`, `beside=${sevenzip.experiment_id}`)];
      const { page, check } = await openPage(`${views[0]}`, { viewport: { width: 1280, height: 5000 }, colorScheme: scheme });
      for (const view of views) {
        await page.goto(view);
        await page.locator("main h2").nth(view === views[0] ? 0 : 1).waitFor();
        await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 160)} (${v.nodes.length}) ${v.nodes[0].failureSummary}`), [], view);
      }
      await check();
    });
  }

  test("the report of twenty platforms fits on a phone and has a column for each", async () => {
    const dir = tempDir();
    const files = Array.from({ length: 20 }, (_, n) => path.join(dir, `cloud-${n}.json`));
    files.forEach((file, n) => writeFileSync(file, JSON.stringify({ ...native, experiment_id: `${String(n).padStart(8, "0")}-0000-4000-8000-000000000000` })));
    const made = spawnSync(binary, ["compare", "--format", "html", ...files], { encoding: "utf8", maxBuffer: 1 << 26 });
    assert.equal(made.status, 0, made.stderr);
    const report = path.join(dir, "report.html");
    writeFileSync(report, made.stdout);
    const { page, check } = await openPage(pathToFileURL(report).href, { viewport: { width: 390, height: 844 }, hasTouch: true });
    const platforms = page.locator("section", { has: page.getByRole("heading", { name: "Platforms", exact: true }) }).locator("table").first();
    assert.equal(await platforms.locator("thead th").count(), 21);
    const row = platforms.locator("tbody tr").first();
    assert.deepEqual(await row.locator("[data-label]").evaluateAll((cells) => cells.map((c) => c.getAttribute("data-label"))), files.map((f) => `${path.basename(f, ".json")}/native`));
    assert.deepEqual(await wide(page, ".scroll, .hidden, svg, pre"), []);
    await check();
  });

  test("on a phone nothing is cut off", async () => {
    const { page, check } = await openPage(at(), { viewport: { width: 390, height: 844 }, hasTouch: true });
    for (const view of [at(), ...["result", "why", "trust", "reproduce"].map((tab) => detail(ladder, `tab=${tab}`)), detail(sevenzip), at(`subject=${native.experiment_id}`, `beside=${gvisor.experiment_id}`)]) {
      await page.goto(view);
      await page.locator("main h2").nth(view === at() ? 0 : 1).waitFor();
      assert.deepEqual(await wide(page), [], `${view} is wider than the screen`);
    }
    await check();
  });
});
