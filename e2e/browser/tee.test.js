// The page of a machine with a trusted execution environment: a folder with the files of such a
// machine, since this one has none.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { hostname } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { barriers, chart, cleanUp, drawn, missing, openPage, repository, startMonitor, tempDir, tooWide, unpack, until } from "./harness.js";

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
  // A histogram with all its values in the middle of three buckets.
  const times = (name, rate, seconds) => ({
    [`${name}_sum{}`]: rate * seconds,
    [`${name}_count{}`]: rate,
    ...Object.fromEntries([seconds / 2, seconds * 2, "+Inf"].map((le, i) => [`${name}_bucket{le="${le}"}`, i === 0 ? 0 : rate])),
  });
  // Counts grow at a constant rate, as a program on such a machine would make them.
  const perSecond = {
    'tee_guest_exceptions_total{kind="tdx",reason="hlt"}': 2000,
    'tee_guest_exceptions_total{kind="tdx",reason="msr_write"}': 500,
    'tee_swiotlb_bounced_bytes_total{device="vda"}': 50e6,
    'tee_private_memory_converted_bytes_total{direction="to_shared"}': 4e6,
    'tee_private_memory_converted_bytes_total{direction="to_private"}': 3e6,
    'tee_vm_exits_total{vm="7",type="sev-snp",reason="npf"}': 900,
    'tee_vm_exits_total{vm="7",type="sev-snp",reason="vmgexit"}': 300,
    'tee_vm_userspace_exits_total{vm="7",type="sev-snp",reason="io"}': 40,
    'tee_vm_tdvmcalls_total{reason="hlt"}': 700,
    'tee_vm_vmgexits_total{reason="psc"}': 60,
    'tee_vm_rmp_faults_total{outcome="handled"}': 12,
    'tee_vm_private_memory_lookups_total{vm="7",type="sev-snp"}': 1500,
    'tee_guest_hypercalls_total{reason="map_gpa"}': 25,
    "tee_swiotlb_mapping_failures_total{}": 2,
    'tee_attestations_total{kind="tdx",call="quote"}': 1,
    'tee_sgx_enclave_entries_total{process="teescope"}': 90,
    'tee_sgx_enclave_exits_total{process="teescope"}': 80,
    'tee_sgx_enclave_async_exits_total{process="teescope"}': 10,
    'tee_sgx_enclave_faults_total{result="served"}': 500,
    'tee_sgx_epc_allocation_failures_total{reason="none_free"}': 3,
    "tee_sgx_reclaimer_cpu_seconds_total{}": 0.3,
    ...Object.fromEntries(["added", "evicted", "loaded_back", "reclaimed", "marked_old"].map((op, i) => [`tee_sgx_epc_pages_${op}_total{}`, 300 * (i + 1)])),
    ...times("tee_sgx_epc_reclaim_duration_seconds", 50, 1e-4),
    ...times("tee_vm_exit_duration_seconds", 1200, 2e-6),
    ...times("tee_private_memory_conversion_duration_seconds", 20, 1e-3),
    ...times("tee_memory_acceptance_duration_seconds", 10, 1e-3),
    ...times("tee_sgx_enclave_fault_duration_seconds", 500, 4e-6),
    // The monitor itself acts as a process with enclaves.
    'tee_sgx_process_enclave_faults_total{process="teescope"}': 500,
    'tee_sgx_process_epc_pages_total{process="teescope",operation="loaded_back"}': 500,
  };
  const now = {
    "tee_swiotlb_size_bytes{}": 2 ** 30,
    "tee_swiotlb_used_bytes{}": 2 ** 28,
    "tee_unaccepted_memory_bytes{}": 2 ** 33,
    'tee_vm_private_memory_size_bytes{vm="7",type="sev-snp"}': 2 ** 32,
    "tee_swiotlb_used_max_bytes{}": 2 ** 29,
    "tee_sgx_epc_bytes{}": 2 ** 27,
    "tee_sgx_epc_free_bytes{}": 2 ** 25,
    "tee_sgx_epc_low_watermark_bytes{}": 2 ** 22,
    "tee_sgx_enclaves{}": 3,
    'tee_sgx_process_enclaves{process="teescope"}': 3,
    'tee_sgx_cgroup_epc_bytes{cgroup="/web"}': 2 ** 26,
    'tee_vms{type="sev-snp"}': 1,
    'tee_sev_asids{kind="sev_es",state="used"}': 3,
    'tee_tdx_keys{state="free"}': 60,
    'tee_misc_cgroup_current{resource="sev"}': 1,
    'tee_misc_cgroup_capacity{resource="sev"}': 99,
    'tee_nitro_enclaves{state="running"}': 2,
    'tee_nitro_enclave_memory_bytes{enclave="i-1"}': 2 ** 30,
    'tee_nitro_pool_cpus{state="free"}': 2,
    'tee_nitro_hugepages_bytes{state="free"}': 2 ** 31,
    'tee_gpu_confidential_compute_mode{gpu="0",mode="on"}': 1,
    'tee_gpu_bounce_bytes_per_second{gpu="0",direction="to_device"}': 3e9,
    'tee_gpu_protected_memory_used_bytes{gpu="0"}': 2 ** 34,
    'tee_gpu_protected_memory_size_bytes{gpu="0"}': 2 ** 36,
    'tee_gpu_utilization_ratio{gpu="0",engine="compute"}': 0.8,
  };
  // Sources that work on such a machine.
  const working = ["guest_exits", "swiotlb", "swiotlb_bounces", "conversions", "unaccepted", "kvm", "vm"];

  const ofTEEs = /^tee_(sgx|vm|guest|swiotlb|private|unaccepted|memory_acceptance|attestations|sev|tdx|misc|nitro|gpu)/;

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
    guest = hostname(); // the monitor's name for this machine
    url = await startMonitor("--config", config);
    // Charts use rates over 20 s, so that much must be stored.
    const enough = `count_over_time(tee_vm_private_memory_size_bytes{instance="${guest}"}[1m]) > 25`;
    await until("half a minute is stored", async () => (await (await fetch(`${url}/api/v1/query?query=${encodeURIComponent(enough)}`)).json()).data.result.length > 0);
  });
  after(cleanUp);

  /** The TEE page of a machine described by kinds, with its sources. */
  async function machine(kinds, search = "", options, everything = false) {
    const opened = await openPage(`${url}/-/healthy`, options);
    await opened.context.route("**/api/teescope/v1/platform", async (r) => {
      const p = await (await r.fetch()).json();
      p.tees = p.tees.map((t) => (kinds[t.kind] ? { kind: t.kind, doc: t.doc, state: "here", facts: { kind: t.kind, active: true, evidence: [{ source: "CPUID 0x21", value: "here" }], ...kinds[t.kind] } } : { ...t, state: "not here", reason: "another machine" }));
      await r.fulfill({ json: p });
    });
    await opened.context.route("**/api/teescope/v1/sources", async (r) => {
      const list = await (await r.fetch()).json();
      const works = (s) => working.includes(s.name) || (everything && s.metrics?.some((m) => ofTEEs.test(m)));
      await r.fulfill({ json: list.map((s) => (works(s) ? { ...s, state: "available", series: 2, reason: "" } : s)) });
    });
    await opened.page.goto(`${url}/?page=tee&range=5m&refresh=0${search}`);
    const check = async () => {
      await opened.context.unrouteAll({ behavior: "ignoreErrors" }); // pending requests get no answer any longer
      await opened.check();
    };
    return { ...opened, check };
  }

  /** Waits for the picture of a workload, or for a part of it. The window ends at a half minute; the
   * monitor may not have run, or not have read the guest, before that. */
  async function pictured(page, part = "") {
    await until("a workload has its picture", async () => {
      const there = await page.locator(`[data-workload] [data-picture] ${part}`).first().waitFor({ timeout: 10_000 }).then(() => true, () => false);
      if (!there) await page.reload();
      return there;
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
    const shares = await page.locator("table.cost tr[data-level='0']").filter({ hasText: "the TEE, " }).evaluateAll((rows) => rows.map((r) => Number(r.dataset.share)));
    const sum = shares.reduce((a, b) => a + b, 0);
    const said = Number(await page.locator("[data-tee]").getAttribute("data-tee"));
    assert.ok(shares.includes(share) && Math.abs(said / sum - 1) < 1e-6, `the TEE's rows are ${shares}, together ${said}`);
    // Events of the TEE that are counted for the whole machine have a separate table.
    await page.locator("tr[data-row=bounce_buffers]").waitFor();
    await page.locator("tr[data-row='guest_exits:hlt']").waitFor();
    assert.deepEqual([await barriers(page), await tooWide(page)], [[], []]);
    await check();
  });

  test("a host shows the exits and the private memory of its guests, also on a narrow screen", async () => {
    const { page, check } = await machine({ "sev-host": { role: "host", variant: "sev-snp" } }, "", { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
    await page.getByRole("group", { name: "Virtual machines on this host, on one time axis" }).waitFor();
    await drawn(page, "Exits per second, by reason");
    near((await last(page, "Exits per second, by reason"))["sev-snp, npf"], 900, "faults on nested pages");
    await drawn(page, "Private memory by virtual machine");
    assert.deepEqual(await last(page, "Private memory by virtual machine"), { "7, sev-snp": 2 ** 32 });
    assert.deepEqual(await tooWide(page), []);
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
