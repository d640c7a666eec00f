// The page of a machine with a trusted execution environment: a folder with the files of such a
// machine, since this one has none.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { barriers, chart, cleanUp, drawn, fits, missing, openPage, patience, playBack, repository, startMonitor, tellTEEs, tempDir, unpack, until } from "./harness.js";

describe("the page on a machine with SGX", { skip: process.env.TEESCOPE_URL ? "needs a monitor of its own" : missing() }, () => {
  let url;
  before(async () => {
    const root = tempDir();
    const files = ["cpu", "system", "memory", "pressure", "disk", "network", "sgx_legacy", "misc_cgroup"].map((f) => `internal/probe/sources/testdata/${f}.txtar`);
    unpack(root, ...files, "internal/tee/kinds/testdata/sgx-legacy-isgx.txtar");
    url = await startMonitor("--host-root", root);
    await until("a few readings", async () => (await (await fetch(`${url}/api/v1/query?query=tee_sgx_epc_bytes`)).json()).data.result.length > 0);
  });
  after(cleanUp);

  test("the strip shows the enclave memory that the driver reports", async () => {
    const { page, check } = await openPage(`${url}/?range=5m`);
    await drawn(page, "EPC: protected memory of SGX");
    const size = Number(await chart(page, "EPC: protected memory of SGX").locator("tr[data-name=size]").getAttribute("data-now"));
    const stored = (await (await fetch(`${url}/api/v1/query?query=tee_sgx_epc_bytes`)).json()).data.result[0].value[1];
    assert.equal(size, Number(stored));
    assert.ok(size > 2 ** 20);
    await drawn(page, "EPC paging, pages per second");
    await page.getByText("EPC", { exact: true }).first().hover();
    await page.getByRole("tooltip").getByText(/Enclave page cache/).waitFor();
    await check();
  });

  test("a chart shows where its source delivers, and says why where one that could is off", async () => {
    const { page, check } = await openPage(`${url}/?page=tee&range=5m`);
    const title = "Limited resources of control groups";
    await drawn(page, title);
    const rows = await chart(page, title).locator("tbody tr").evaluateAll((rows) => rows.map((r) => [r.dataset.name, Number(r.dataset.now)]));
    assert.deepEqual(Object.fromEntries(rows), { "size, sev_es": 410, "size, sev": 99, "used, sev_es": 3, "used, sev": 1 });
    assert.equal(await chart(page, "Encrypted transfers of each card, bytes per second").count(), 0, "no card, no chart");
    // This machine's own CPU decides whether SGX is possible.
    const platform = await (await fetch(`${url}/api/teescope/v1/platform`)).json();
    if (platform.tees.find((t) => t.kind === "sgx").state !== "not here") {
      await chart(page, "Enclave transitions per second").getByText(/is off until an enclave or its runtime runs/).waitFor();
    }
    await check();
  });

  test("files that say SGX and a CPU that denies it are no TEE but a doubt, with the reason", async () => {
    const platform = await (await fetch(`${url}/api/teescope/v1/platform`)).json();
    const sgx = platform.tees.find((t) => t.kind === "sgx");
    const { page, check } = await openPage(`${url}/?page=tee`);
    // The files are the fixture's, the CPU is this machine's.
    if (sgx.state === "here") await page.getByRole("link", { name: /SGX host, detected/ }).waitFor();
    else {
      await page.getByRole("link", { name: "TEE: unknown" }).waitFor();
      await page.getByRole("row", { name: /^SGX.*could not tell/ }).getByRole("cell", { name: /CPUID/ }).waitFor();
    }
    await check();
  });

  test("a detected TEE is called detected, never verified, and shows its evidence", async () => {
    const { page, check, context } = await openPage(`${url}/?page=tee`);
    const facts = { kind: "sgx", variant: "isgx", role: "host", active: true, evidence: [{ source: "CPUID 7", value: "SGX" }] };
    await context.route("**/api/teescope/v1/platform", async (r) => {
      const p = await (await r.fetch({ timeout: patience })).json();
      p.tees = p.tees.map((t) => (t.kind === "sgx" ? { kind: "sgx", doc: t.doc, state: "here", facts } : t));
      await r.fulfill({ json: p });
    });
    await page.reload();
    await page.getByRole("link", { name: "SGX host, detected" }).waitFor();
    await page.getByRole("row", { name: /CPUID 7 SGX/ }).waitFor();
    await page.getByText("nothing was attested").waitFor();
    assert.equal(await page.getByText(/verified/).count(), 0);
    await check();
  });
});

describe("the page of confidential virtual machines", { skip: missing({ root: false }) }, () => {
  let url;
  before(async () => {
    ({ url } = await playBack({ more: ["tee"] }));
  });
  after(cleanUp);

  /** The TEE page of a machine described by kinds, with its sources. */
  async function machine(kinds, search = "", options, everything = false) {
    const opened = await openPage(`${url}/-/healthy`, options);
    const end = await tellTEEs(opened.context, url, kinds, everything);
    await opened.page.goto(`${url}/?page=tee&range=5m&refresh=0${search}`);
    const check = async () => {
      await end();
      await opened.check();
    };
    return { ...opened, check };
  }

  /** Waits for the picture of a workload, or for a part of it. */
  const pictured = (page, part = "") => page.locator(`[data-workload] [data-picture] ${part}`).first().waitFor();

  const last = (page, title) => chart(page, title).locator("tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.dataset.name, Number(r.dataset.now)])));
  const near = (got, want, what) => assert.ok(Math.abs(got / want - 1) < 1e-9, `${what}: ${got}, want ${want}`);

  test("a guest shows its exits, bounce buffers and private memory on one time axis", async () => {
    const { page, check } = await machine({ tdx: { role: "guest" } });
    await page.getByRole("link", { name: "TDX guest, detected" }).waitFor();
    const axis = page.getByRole("group", { name: "This confidential guest, on one time axis" });
    const titles = ["SWIOTLB: bounce buffer in use", "Bounce buffers by device, bytes per second", "Exceptions of the guest per second, by reason", "Memory made private or shared, bytes per second", "Memory not yet accepted by the guest"];
    for (const t of titles) {
      await drawn(page, t);
      assert.equal(await axis.getByRole("region", { name: t, exact: true }).count(), 1, `${t} is not on the axis`);
    }
    const exits = await last(page, titles[2]);
    near(exits.hlt, 2000, "halts");
    near(exits.msr_write, 500, "register writes");
    near((await last(page, titles[1])).vda, 50e6, "bytes bounced");
    near((await last(page, titles[3])).to_shared, 4e6, "bytes shared");
    assert.deepEqual([(await last(page, titles[0])).used, (await last(page, titles[4])).unaccepted], [2 ** 28, 2 ** 33]);
    assert.equal(await chart(page, "99th-percentile latency").count(), 1);
    await pictured(page);
    assert.deepEqual(await barriers(page), []);
    await check();
  });

  test("the TEE page leads with the picture of each workload, and the explanation has the TEE's rows", async () => {
    const { page, check } = await machine({ sgx: { role: "host" } }, "&range=1m");
    await pictured(page, "[data-segment=enclave_faults]");
    const workload = page.locator("[data-workload=redis-0001]");
    await workload.locator("[data-picture] [data-segment=enclave_faults]").waitFor();
    await workload.getByText(/^The TEE costs redis-0001 .* of its active time: .*faults on enclave memory/).waitFor();
    assert.equal(await page.locator("[data-workload]").count(), 1, "no other process has enclaves");
    assert.deepEqual(await barriers(page), []);
    await workload.getByRole("link", { name: "redis-0001" }).click();
    const row = page.locator("table.cost tr[data-row=enclave_faults]");
    await row.waitFor();
    const share = Number(await row.getAttribute("data-share"));
    assert.ok(share > 0 && share < 1, `share ${share}`);
    const shares = await page.locator("table.cost tr[data-level='0']").filter({ hasText: "the TEE, " }).evaluateAll((rows) => rows.map((r) => Number(r.dataset.share)));
    const sum = shares.reduce((a, b) => a + b, 0);
    const said = Number(await page.locator("[data-tee]").getAttribute("data-tee"));
    assert.ok(shares.includes(share) && Math.abs(said / sum - 1) < 1e-6, `the TEE's rows are ${shares}, together ${said}`);
    // Events of the TEE that are counted for the whole machine have a separate table.
    await page.locator("tr[data-row=bounce_buffers]").waitFor();
    await page.locator("tr[data-row='guest_exits:hlt']").waitFor();
    await fits(page);
    assert.deepEqual(await barriers(page), []);
    await check();
  });

  test("a host shows the exits and the private memory of its guests, also on a narrow screen", async () => {
    const { page, check } = await machine({ "sev-host": { role: "host", variant: "sev-snp" } }, "", { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
    await page.getByRole("group", { name: "Virtual machines on this host, on one time axis" }).waitFor();
    await drawn(page, "Exits per second, by reason");
    near((await last(page, "Exits per second, by reason"))["sev-snp, npf"], 900, "faults on nested pages");
    await drawn(page, "Private memory by virtual machine");
    assert.deepEqual(await last(page, "Private memory by virtual machine"), { "7, sev-snp": 2 ** 32 });
    await fits(page);
    await check();
  });

  for (const colorScheme of ["light", "dark"]) {
    test(`every chart of every TEE is drawn, ${colorScheme}`, async () => {
      const kinds = { sgx: { role: "host" }, tdx: { role: "guest" }, "sev-host": { role: "host", variant: "sev-snp" }, nitro: { role: "host" }, "nvidia-cc": { role: "device" } };
      // Invisible charts are not drawn.
      const { page, check } = await machine(kinds, "", { viewport: { width: 1440, height: 7000 }, colorScheme }, true);
      const list = readFileSync(path.join(repository, "ui/src/charts/tee.ts"), "utf8");
      const titles = [...list.matchAll(/(?:title: |(?:rates|values|times|against)\("[a-z]+", )"([^"]+)"/g)].map((m) => m[1]);
      assert.ok(titles.length > 40, `${titles.length} charts`);
      for (const t of titles) await drawn(page, t);
      const empty = await page.locator("section.panel").evaluateAll((all) => all.filter((e) => e.dataset.state !== "drawn").map((e) => e.getAttribute("aria-label")));
      assert.deepEqual(empty, []);
      const blank = await page.locator("section.panel canvas").evaluateAll((all) => all.filter((c) => !c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v !== 0)).length);
      assert.equal(blank, 0);
      assert.deepEqual(await barriers(page), []);
      if (process.env.TEESCOPE_SHOTS) await page.screenshot({ path: `${process.env.TEESCOPE_SHOTS}/tee-${colorScheme}.png`, fullPage: true });
      await check();
    });
  }
});
