// The page over a machine with a trusted execution environment: a folder with
// the files that such a machine shows, since this one has none.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import http from "node:http";
import { hostname } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { barriers, chart, cleanUp, drawn, missing, openPage, startMonitor, tempDir, tooWide, unpack, until } from "./harness.js";

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
    // This machine's own CPU decides whether there may be SGX.
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
      const p = await (await r.fetch()).json();
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

describe("the page of confidential virtual machines", { skip: process.env.TEESCOPE_URL ? "needs a monitor of its own" : missing() }, () => {
  let url;
  let guest;
  // Counts go up as a program of such a machine would have them: so many a second.
  const perSecond = {
    'tee_guest_exceptions_total{kind="tdx",reason="hlt"}': 2000,
    'tee_guest_exceptions_total{kind="tdx",reason="msr_write"}': 500,
    'tee_swiotlb_bounced_bytes_total{device="vda"}': 50e6,
    'tee_private_memory_converted_bytes_total{direction="to_shared"}': 4e6,
    'tee_private_memory_converted_bytes_total{direction="to_private"}': 3e6,
    'tee_vm_exits_total{vm="7",type="sev-snp",reason="npf"}': 900,
    'tee_vm_exits_total{vm="7",type="sev-snp",reason="vmgexit"}': 300,
    // The monitor itself is taken for a process with enclaves.
    'tee_sgx_process_enclave_faults_total{process="teescope"}': 500,
    'tee_sgx_process_epc_pages_total{process="teescope",operation="loaded_back"}': 500,
    "tee_sgx_enclave_fault_duration_seconds_sum{}": 500 * 4e-6,
    "tee_sgx_enclave_fault_duration_seconds_count{}": 500,
  };
  const now = {
    "tee_swiotlb_size_bytes{}": 2 ** 30,
    "tee_swiotlb_used_bytes{}": 2 ** 28,
    "tee_unaccepted_memory_bytes{}": 2 ** 33,
    'tee_vm_private_memory_size_bytes{vm="7",type="sev-snp"}': 2 ** 32,
  };
  // Sources that work where there is such a machine.
  const working = ["guest_exits", "swiotlb", "swiotlb_bounces", "conversions", "unaccepted", "kvm", "vm"];

  before(async () => {
    const began = Date.now();
    const line = (name, value) => name.replace("{", `{job="teescope",instance="${guest}",`).replace(",}", "}") + ` ${value}\n`;
    const server = http.createServer((_, answer) => {
      const seconds = (Date.now() - began) / 1000;
      const counts = Object.entries(perSecond).map(([name, rate]) => line(name, name.includes("_sum") ? rate * seconds : Math.round(rate * seconds)));
      answer.setHeader("Content-Type", "text/plain; version=0.0.4");
      answer.end([...counts, ...Object.entries(now).map(([name, value]) => line(name, value))].join(""));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    server.unref();
    const config = path.join(tempDir(), "teescope.yml");
    writeFileSync(config, `scrape_configs: [{job_name: guest, honor_labels: true, scrape_interval: 1s, static_configs: [{targets: ["127.0.0.1:${server.address().port}"]}]}]\n`);
    guest = hostname(); // as the monitor calls this machine
    url = await startMonitor("--config", config);
    // Charts take rates over 20 s: all of it has to be there.
    const enough = `count_over_time(tee_vm_private_memory_size_bytes{instance="${guest}"}[1m]) > 25`;
    await until("half a minute is stored", async () => (await (await fetch(`${url}/api/v1/query?query=${encodeURIComponent(enough)}`)).json()).data.result.length > 0);
  });
  after(cleanUp);

  /** The TEE page of a machine that is what kinds say, with its sources. */
  async function machine(kinds, search = "", options) {
    const opened = await openPage(`${url}/-/healthy`, options);
    await opened.context.route("**/api/teescope/v1/platform", async (r) => {
      const p = await (await r.fetch()).json();
      p.tees = p.tees.map((t) => (kinds[t.kind] ? { kind: t.kind, doc: t.doc, state: "here", facts: { kind: t.kind, active: true, evidence: [{ source: "CPUID 0x21", value: "here" }], ...kinds[t.kind] } } : { ...t, state: "not here", reason: "another machine" }));
      await r.fulfill({ json: p });
    });
    await opened.context.route("**/api/teescope/v1/sources", async (r) => {
      const list = await (await r.fetch()).json();
      await r.fulfill({ json: list.map((s) => (working.includes(s.name) ? { ...s, state: "available", series: 2, reason: "" } : s)) });
    });
    await opened.page.goto(`${url}/?page=tee&range=5m&refresh=0${search}`);
    return opened;
  }

  /** Waits for the picture of a workload, or for a part of it. The window ends at a half minute, before which the monitor
   * may not have run, or not have read the guest. */
  async function pictured(page, part = "") {
    await until("a workload has its picture", async () => {
      await page.locator("[data-workload] p").first().waitFor();
      if ((await page.locator(`[data-workload] [data-picture] ${part}`).count()) > 0) return true;
      await page.reload();
    });
  }

  const last = (page, title) => chart(page, title).locator("tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.dataset.name, Number(r.dataset.now)])));
  const near = (got, want, what) => assert.ok(Math.abs(got / want - 1) < 0.25, `${what}: ${got}, want about ${want}`);

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
    const workload = page.locator("[data-workload=teescope]");
    await workload.locator("[data-picture] [data-segment=enclave_faults]").waitFor();
    await workload.getByText(/^The TEE costs teescope .* of its active time: faults on enclave memory/).waitFor();
    assert.equal(await page.locator("[data-workload]").count(), 1, "no other process has enclaves");
    assert.deepEqual(await barriers(page), []);
    await workload.getByRole("link", { name: "teescope" }).click();
    const row = page.locator("table.cost tr[data-row=enclave_faults]");
    await row.waitFor();
    const share = Number(await row.getAttribute("data-share"));
    assert.ok(share > 0 && share < 1, `share ${share}`);
    assert.equal(Number(await page.locator("[data-tee]").getAttribute("data-tee")), share, "the TEE's rows add up");
    // Where the TEE's events are of the whole machine, they have a table of their own.
    await page.locator("tr[data-row=bounce_buffers]").waitFor();
    await page.locator("tr[data-row='guest_exits:hlt']").waitFor();
    assert.deepEqual([await barriers(page), await tooWide(page)], [[], []]);
    await check();
  });

  test("a host shows the exits and the private memory of its guests, also on a narrow screen", async () => {
    const { page, check } = await machine({ "sev-host": { role: "host", variant: "sev-snp" } }, "&theme=dark", { viewport: { width: 390, height: 844 } });
    await page.getByRole("group", { name: "Virtual machines on this host, on one time axis" }).waitFor();
    await drawn(page, "Exits per second, by reason");
    near((await last(page, "Exits per second, by reason"))["sev-snp, npf"], 900, "faults on nested pages");
    await drawn(page, "Private memory by virtual machine");
    assert.deepEqual(await last(page, "Private memory by virtual machine"), { "7, sev-snp": 2 ** 32 });
    assert.deepEqual(await tooWide(page), []);
    await check();
  });
});
