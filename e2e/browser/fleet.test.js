// Several machines on the page: the list of them, the choice of one, and that every number is that of the machine it is
// shown for. The recorded node-2 has other rates than the monitor's own vm-1; node-3 no longer answers.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { barriers, chart, cleanUp, drawn, filled, fits, missing, openPage, playBack, reached, until } from "./harness.js";

describe("several machines", { skip: missing({ root: false }) }, () => {
  let url;
  const node = (instance) => `machine=${instance}&job=agents`;
  const data = (page, name, value) => page.locator(`[data-${name}="${value}"]`);

  before(async () => {
    ({ url } = await playBack({
      config: "analysis: {every: 1s}\n",
      machines: [
        { job: "agents", instance: "node-2", files: ["node", "stolen"] },
        { job: "agents", instance: "node-3", files: ["node"], ended: "6m" },
        { job: "other", instance: "node-2", files: ["node"] },
      ],
    }));
    await until("the steal of node-2 is found", async () => (await (await fetch(`${url}/api/teescope/v1/machines?rule=cpu_steal`)).json()).matched === 1);
  });
  after(cleanUp);

  test("the list: a row each, the worst first, with exact numbers", async () => {
    const { page, check } = await openPage(`${url}/?page=fleet`);
    const rows = page.locator("#fleet tbody tr");
    await until("four rows", async () => (await rows.count()) === 4);
    assert.deepEqual(await rows.evaluateAll((all) => all.slice(0, 2).map((r) => `${r.dataset.job}/${r.dataset.machine} ${r.dataset.state}`)), ["agents/node-3 gone", "agents/node-2 critical"]);
    const value = (job, column) => page.locator(`tr[data-job="${job}"][data-machine=node-2] [data-column=${column}]`).getAttribute("data-value");
    for (const job of ["agents", "other"]) {
      assert.equal(Number(await value(job, "cost")).toFixed(6), "0.012000", job);
      assert.equal(Number(await value(job, "waiting")).toFixed(6), "0.080000", job);
      assert.equal(await value(job, "sources"), "8/9", job);
    }
    assert.equal(Number(await value("agents", "share")).toFixed(3), "0.400", "what CPU steal takes");
    assert.match(await page.locator('tr[data-job=agents][data-machine=node-2]').innerText(), /SEV-SNP guest[^]*loses 40 % of its CPU time[^]*±9\.8 %|SEV-SNP guest[^]*loses 40 %/);
    assert.match(await page.getByRole("region", { name: "Verdict" }).innerText(), /^1 of 4 machines has a problem; 1 does not answer/);
    const guests = page.locator('#by-tee [data-tee="sev-snp guest"]');
    assert.deepEqual(await guests.locator("[data-health]").evaluateAll((all) => all.map((e) => `${e.dataset.health} ${e.dataset.value}`).filter((t) => !t.endsWith(" 0"))), ["critical 1", "good 1"]);
    assert.match(await data(page, "cause", "cpu_steal").innerText(), /1 machine: CPU steal[^]*node-2\.example/);
    assert.deepEqual(await barriers(page), []);
    await check();
  });

  test("filters, sorting and the way to a machine, by the keyboard alone", async () => {
    const { page, check } = await openPage(`${url}/?page=fleet`);
    const rows = page.locator("#fleet tbody tr");
    await until("four rows", async () => (await rows.count()) === 4);
    await data(page, "cause", "cpu_steal").getByRole("link").focus();
    await page.keyboard.press("Enter");
    await page.locator("[data-matched='1']").waitFor();
    assert.equal(await rows.first().getAttribute("data-machine"), "node-2");
    await page.getByRole("button", { name: "Drop the filter CPU steal ×" }).focus();
    assert.ok(!(await page.locator("main").innerText()).includes("cpu_steal"), "the page shows no ids of rules");
    await page.keyboard.press("Enter");
    await page.locator("[data-matched='4']").waitFor();
    await page.getByRole("button", { name: "Machine", exact: true }).click();
    await until("the monitor's own first", async () => (await rows.first().getAttribute("data-machine")) === "vm-1");
    await page.getByRole("searchbox").fill("NODE-3");
    await page.locator("[data-matched='1']").waitFor();
    await rows.first().getByRole("link").first().focus();
    await page.keyboard.press("Enter");
    // With the day where it was not today, as just after midnight.
    await page.getByText(/^No answer since (\d+ \w+, )?\d\d:\d\d: the agent of this machine does not answer/).waitFor();
    assert.match(page.url(), /machine=node-3&job=agents/);
    await check();
  });

  test("the choice in the top bar keeps page and time, and every number is of the chosen machine", async () => {
    const { page, check } = await openPage(`${url}/?page=processes&range=5m`);
    const cpu = async (name) => {
      const cell = page.locator(`#processes tr[data-name="${name}"] [data-column=cpu]`);
      await cell.waitFor();
      return Number(await cell.getAttribute("data-value")).toFixed(4);
    };
    assert.equal(await cpu("redis-0001"), "0.3000");
    assert.equal(await data(page, "name", "enclave-app").count(), 0, "a process of node-2");
    await page.getByRole("button", { name: /choose another machine/ }).click();
    await page.getByRole("combobox", { name: "Name of a machine" }).fill("node-2.ex");
    await page.getByRole("option").filter({ hasText: "critical" }).waitFor();
    await until("only those of the name", async () => (await page.getByRole("option").count()) === 2);
    await page.getByRole("option").filter({ hasText: "critical" }).hover();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /node-2\.example/ }).waitFor();
    assert.match(page.url(), /page=processes&machine=node-2&job=agents&range=5m/);
    assert.equal(await cpu("redis-0001"), "0.7000");
    assert.equal(await cpu("enclave-app"), "1.1000");
    assert.equal(await data(page, "name", "nginx").count(), 0, "a process of vm-1");
    await page.getByText("Reasons why sources are off, process ids and TEE evidence are available only on the machine").waitFor();
    await page.goBack();
    assert.equal(await cpu("redis-0001"), "0.3000");
    await check();
  });

  test("each page of another machine", async () => {
    const { page, check } = await openPage(`${url}/?${node("node-2")}&range=5m`);
    const verdict = page.getByRole("region", { name: "Verdict" });
    await verdict.getByText(/^1 problem: The machine node-2 loses 40 % of its CPU time/).waitFor();
    await reached(page.locator('[data-tile="CPU in use"]'), page.locator('[data-tile="CPU in use"]:not([data-value=""])'));
    assert.equal(Number(await page.locator('[data-tile="CPU in use"]').getAttribute("data-value")).toFixed(3), "0.900");
    assert.match(await verdict.innerText(), /Watching 2 process names at a cost of 1\.2 % of one core/);
    for (const [target, texts] of [
      ["page=tee", [/This machine runs inside an SEV-SNP guest/, /This machine's agent could not check this/, /This machine's agent found no TEE of this kind/]],
      ["page=machine", [/Linux 6\.12\.7, amd64/, /AMD EPYC 9654, 4 CPUs/, /16 GiB/, /1\.2\.3/]],
      ["page=settings", [/The agent uses 1\.2 % of one core, within its budget of 8 % on these 4 CPUs/, /These sources belong to another machine/, /delivered nothing in its last reading/]],
      ["page=processes&subject=redis-0001", [/Process ids of another machine are not available here/, /70 % of one core/]],
      ["page=findings", [/The machine node-2 loses 40 %/]],
      ["page=benchmarks", [/Each result names the machine on which it was measured/]],
      ["page=explore", [/Queries cover all machines/]],
    ]) {
      await page.goto(`${url}/?${target}&${node("node-2")}&range=5m`);
      for (const t of texts) await page.getByText(t).first().waitFor();
      await filled(page);
    }
    await page.goto(`${url}/?page=machine&${node("node-2")}&range=5m`);
    await drawn(page, "Memory");
    await page.goto(`${url}/?page=processes&subject=redis-0001&${node("node-2")}&range=5m`);
    await page.locator("[data-cpu]:not([data-cpu=''])").waitFor();
    assert.equal(Number(await page.locator("[data-cpu]").getAttribute("data-cpu")).toFixed(4), "0.7000");
    await page.goto(`${url}/?${node("nowhere")}`);
    await page.getByText(/no series with job "agents" and instance "nowhere"/).first().waitFor();
    await check();
  });

  test("a long name, a fixed window and a badge fit in the top bar", async () => {
    const { page, check } = await openPage(`${url}/?${node("node-2")}&from=1700000000&to=1764099000`);
    await page.getByRole("button", { name: /choose another machine/ }).waitFor();
    await filled(page);
    await fits(page);
    assert.ok((await page.getByRole("button", { name: /choose another machine/ }).boundingBox()).width > 70, "the name can be read");
    await check();
  });

  test("the monitor's own page has no finding of another machine", async () => {
    const { page, check } = await openPage(`${url}/?page=findings`);
    await page.getByText(/open|No open findings/).first().waitFor();
    assert.equal(await page.locator("[data-listed=cpu_steal]").count(), 0);
    await page.goto(`${url}/?page=now&range=5m`);
    await chart(page, "CPU by process, percent of one core").waitFor();
    assert.equal(await page.locator("[data-problem=cpu_steal]").count(), 0);
    await check();
  });

  test("on a phone", async () => {
    const { page, check } = await openPage(`${url}/?page=fleet`, { viewport: { width: 390, height: 844 } });
    await page.locator("#fleet tbody tr").first().waitFor();
    await fits(page);
    assert.deepEqual(await barriers(page), []);
    await page.goto(`${url}/?${node("node-2")}&range=5m`);
    await page.getByRole("button", { name: /choose another machine/ }).click();
    await page.getByRole("option").first().waitFor();
    await fits(page);
    assert.deepEqual(await barriers(page), []);
    await check();
  });
});
