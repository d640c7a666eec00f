// The pictures in README.md and in docs: each page of a recorded host with a program that reads the
// time in a loop, and the page of TEEs of two hosts that have one. `make picture` takes new ones;
// otherwise the test takes them too, and checks the committed ones.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { after, describe, test } from "node:test";
import { cleanUp, drawn, filled, missing, openPage, playBack, repository, tellTEEs, tempDir } from "./harness.js";

const folder = path.join(repository, "docs/images");
const most = 1024 * 1024; // bytes of all
const readme = "now.png";
const mostOfReadme = 150 * 1024;
const anew = process.env.TEESCOPE_PICTURE === "1";

// The monitor of a cluster (make cluster) on which k8s-network has just run: its picture is taken anew. Without it, that stays as it is.
const cluster = process.env.TEESCOPE_CLUSTER;
const cpuOfNetwork = 'sum by (instance, process) (rate(tee_sampled_cpu_seconds_total{process=~"wireguard-go.*|teescope-work"}[30s]))';

/** The content of each picture, and what it waits for. */
const chart = (title) => (page) => drawn(page, title);
const pictures = [
  ["now", "", async (page) => {
    await page.locator("[data-problem=vdso_bypass][data-subject=chatty-service]").waitFor();
    await drawn(page, "CPU by process, percent of one core");
  }],
  ["processes", "page=processes", (page) => page.locator("#processes").waitFor()],
  ["process", "page=processes&subject=chatty-service", (page) => page.locator("[data-explained=chatty-service]").waitFor()],
  ["tee", "page=tee", (page) => page.locator("table.answers").waitFor()],
  ["machine", "page=machine", chart("CPU by mode, percent of one core")],
  ["benchmarks", "page=benchmarks", (page) => page.locator("table.matrix").waitFor()],
  ["explore", `page=explore&expr=${encodeURIComponent("topk(5, sum by (process, syscall) (rate(tee_syscalls_total[1m])))")}`, chart("Over the time range")],
  ["settings", "page=settings", (page) => page.locator("[data-source]").first().waitFor()],
];

/** The page of TEEs on machines that have one: what it is, and what the picture waits for. */
const withTEE = [
  ["tee-enclaves", { sgx: { role: "host", evidence: [{ source: "CPUID 0x12", value: "SGX1 and SGX2 leaves" }] } }, (page) => page.locator("[data-workload] [data-picture] [data-segment=enclave_faults]").first().waitFor()],
  ["tee-guest", { tdx: { role: "guest" } }, chart("Exceptions of the guest per second, by reason")],
];

/** Takes a picture of a page into a folder, with few colours if it is to be committed. */
async function picture(page, files, name) {
  await filled(page);
  await page.evaluate(() => document.fonts.ready);
  const file = path.join(files, `${name}.png`);
  await page.screenshot({ path: file });
  assert.ok(statSync(file).size > 10 * 1024, `${name} is empty`);
  if (!anew) return;
  const { status, stderr, error } = spawnSync("pngquant", ["--force", "--strip", "--speed", "1", "--output", file, "256", file]);
  assert.equal(status, 0, `pngquant: ${error ?? stderr}`);
  mkdirSync(folder, { recursive: true });
  cpSync(file, path.join(folder, `${name}.png`));
}

describe("the pictures of the pages", { skip: missing({ root: false }) }, () => {
  after(cleanUp);

  test("show a load", async () => {
    const data = tempDir();
    cpSync(path.join(repository, "e2e/browser/testdata/results"), path.join(data, "results"), { recursive: true });
    const { url } = await playBack({ more: ["storm"], data, config: "analysis: {every: 1s}\n" });
    const { page, check } = await openPage(`${url}/-/healthy`, { viewport: { width: 1280, height: 800 } });
    const files = tempDir();
    for (const [name, search, ready] of pictures) {
      await page.goto(`${url}/?range=5m&refresh=30&${search}`);
      await ready(page);
      await picture(page, files, name);
    }
    await check();
  });

  test("show machines with a TEE", async () => {
    const { url } = await playBack({ more: ["tee"] });
    const files = tempDir();
    for (const [name, kinds, ready] of withTEE) {
      const { page, context, check } = await openPage(`${url}/-/healthy`, { viewport: { width: 1280, height: 800 } });
      const end = await tellTEEs(context, url, kinds);
      await page.goto(`${url}/?page=tee&range=5m&refresh=0`);
      await ready(page);
      await picture(page, files, name);
      await end();
      await check();
    }
  });

  test("show a cluster", { skip: cluster ? false : "TEESCOPE_CLUSTER is the address of a cluster's monitor" }, async () => {
    const { page, check } = await openPage(`${cluster}/?range=5m&refresh=30&page=explore&expr=${encodeURIComponent(cpuOfNetwork)}`, { viewport: { width: 1280, height: 860 } });
    await chart("Over the time range")(page);
    await picture(page, tempDir(), "cluster");
    await check();
  });

  test("are committed, small, and shown in README or docs", () => {
    assert.deepEqual(readdirSync(folder).toSorted(), [...pictures.map(([name]) => name), ...withTEE.map(([name]) => name), "cluster"].map((name) => `${name}.png`).toSorted());
    const size = (name) => statSync(path.join(folder, name)).size;
    const all = readdirSync(folder).reduce((sum, name) => sum + size(name), 0);
    assert.ok(all < most, `${all} bytes`);
    assert.ok(size(readme) < mostOfReadme, `${readme}: ${size(readme)} bytes`);
    const texts = ["README.md", ...readdirSync(path.join(repository, "docs")).filter((f) => f.endsWith(".md")).map((f) => `docs/${f}`)].map((f) => readFileSync(path.join(repository, f), "utf8"));
    for (const name of readdirSync(folder)) assert.ok(texts.some((t) => t.includes(`images/${name})`)), `${name} is shown nowhere`);
  });
});
