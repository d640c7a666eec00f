// The page over a machine with a trusted execution environment: a folder with
// the files that such a machine shows, since this one has none.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chart, cleanUp, drawn, missing, openPage, startMonitor, tempDir, unpack, until } from "./harness.js";

describe("the page on a machine with SGX", { skip: process.env.TEESCOPE_URL ? "needs a monitor of its own" : missing() }, () => {
  let url;
  before(async () => {
    const root = tempDir();
    const files = ["cpu", "system", "memory", "pressure", "disk", "network", "sgx_legacy", "misc_cgroup"].map((f) => `internal/probe/sources/testdata/${f}.txtar`);
    unpack(root, ...files, "internal/tee/kinds/testdata/sgx-legacy-isgx.txtar");
    url = await startMonitor("--host-root", root);
    await until("a few readings", 30_000, async () => (await (await fetch(`${url}/api/v1/query?query=tee_sgx_epc_bytes`)).json()).data.result.length > 0);
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
      await chart(page, "Enclave transitions per second").getByText(/off until it is asked for/).waitFor();
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
      await page.getByRole("link", { name: "TEE: could not tell" }).waitFor();
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
    await page.getByText("nothing here was attested").waitFor();
    assert.equal(await page.getByText(/verified/).count(), 0);
    await check();
  });
});
