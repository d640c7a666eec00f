// Starts what the tests need: a monitor that plays back a recorded host, or one of this machine,
// and a browser that records every error. It is the only place that waits: `until` for events, with
// a patience of minutes. The tests judge the code; what only a live machine can show is measured
// (*.measure.js).
//
// TEESCOPE_BIN is the binary under test; TEESCOPE_URL a monitor that already
// runs on this machine, which then is not started. TEESCOPE_CHROMIUM is the
// browser, the system's chromium without it.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const repository = fileURLToPath(new URL("../../", import.meta.url));
export const binary = process.env.TEESCOPE_BIN ?? path.join(repository, "bin/teescope");
const executablePath = process.env.TEESCOPE_CHROMIUM ?? "/usr/bin/chromium";

/** Why the tests cannot run here, or false, as node's skip option expects. */
export function missing({ root = true, redis = false } = {}) {
  if (!existsSync(executablePath)) return `no browser at ${executablePath}; set TEESCOPE_CHROMIUM`;
  if (root && process.getuid() !== 0 && !process.env.TEESCOPE_URL) return "needs root: eBPF programs are loaded";
  if (redis && spawnSync("redis-server", ["--version"]).error) return "no redis-server";
  return false;
}

// The limit of every wait, in ms: a shared machine can be slow.
export const patience = 480_000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The programs that a test file starts die with it, and it dies with the test runner.
const parent = process.ppid;
setInterval(() => process.ppid !== parent && process.exit(1), 1000).unref();

const cleanups = [];

/** Ends everything that was started, the latest first. */
export async function cleanUp() {
  for (const f of cleanups.splice(0).reverse()) await f();
  lost.length = 0;
}

export function tempDir() {
  const dir = mkdtempSync(path.join(tmpdir(), "teescope-browser-"));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

// What is said of programs that have ended although nobody stopped them.
const lost = [];

// How much of a program's output is kept: the beginning and the end, half of it each.
const mostText = 1 << 20;

/** Starts a program that is to run until stop or cleanUp. If it ends before, every wait ends at once with its exit status
 * and its last words: `until`, and what waits for a page, whose contexts are closed. */
export function start(command, args) {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", command, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let stopped = false;
  const hear = (d) => {
    text += d;
    if (text.length > mostText) text = `${text.slice(0, mostText / 2)}\n...\n${text.slice(-mostText / 4)}`;
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  const ended = new Promise((resolve) => {
    const end = (how) => {
      resolve();
      if (stopped) return;
      lost.push(`${path.basename(command)} ${how}; it printed\n${text.slice(-8192)}`);
      console.error(lost.at(-1));
      for (const context of browser?.contexts() ?? []) void context.close();
    };
    child.on("error", (error) => end(`did not start: ${error.message}`));
    child.on("close", (code, signal) => end(`ended: ${signal ?? `exit status ${code}`}`));
  });
  const stop = async () => {
    stopped = true;
    if (child.exitCode === null) child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
    await ended;
    clearTimeout(timer);
  };
  cleanups.push(stop);
  return { child, output: () => text, stop, ended };
}

/** A new monitor of this machine, or the one at TEESCOPE_URL; returns its address. */
export async function startMonitor(...args) {
  if (process.env.TEESCOPE_URL && args.length === 0) return process.env.TEESCOPE_URL.replace(/\/$/, "");
  // A short interval keeps the error at the edges of a window small, and a large budget makes all
  // counts exact.
  return monitor(tempDir(), "--interval", "1s", ...args);
}

async function monitor(data, ...args) {
  const p = start(binary, ["monitor", "--listen", "127.0.0.1:0", "--data", data, "--budget", "100%", ...args]);
  const url = await until("the monitor prints its address", () => p.output().match(/page: (http:\S+?)\/?\s/)?.[1]);
  await until("the monitor is ready", async () => (await fetch(`${url}/-/ready`)).ok);
  await until("its sources are open", async () => !(await (await fetch(`${url}/api/teescope/v1/sources`)).text()).includes('"opening"'));
  return url;
}

/** A monitor that plays back a recorded host: the series of testdata/host/calm.txt, and those of
 * more files there, for 20 minutes until now and for the 55 that follow. Every source is switched
 * off, so nothing that runs on this machine is in a series. Returns its address, and the times of
 * the first and of the latest reading in Unix seconds.
 *
 * config is more of the configuration, data a folder that already has something in it. machines are further ones, as a
 * monitor has them that scrapes their agents: {job, instance, files, ended}, with the files of testdata/host and, if its
 * series end before now, how long before. */
export async function playBack({ more = [], machines = [], config = "", data = tempDir(), past = "20m" } = {}) {
  const host = "vm-1";
  const file = (f) => path.join(repository, `e2e/browser/testdata/host/${f}.txt`);
  const files = ["calm", ...more].map(file);
  const others = machines.flatMap((m) => ["-machine", `${m.job}/${m.instance}${m.ended ? `@${m.ended}` : ""}=${m.files.map(file).join(",")}`]);
  const env = { ...process.env, CGO_ENABLED: "0", GOFLAGS: process.env.GOFLAGS ?? "-trimpath" };
  const { status, stdout, stderr, error } = spawnSync("go", ["run", "./e2e/playback", "-data", data, "-instance", host, "-past", past, ...others, ...files], { cwd: repository, env, encoding: "utf8" });
  assert.equal(status, 0, `playback: ${error ?? stderr}`);
  const { first, now, sources } = JSON.parse(stdout);
  const lines = files.map((f) => readFileSync(f, "utf8")).join("\n");

  const root = tempDir();
  unpack(root, ...["cpu", "system", "memory"].map((f) => `internal/probe/sources/testdata/${f}.txtar`));
  writeFileSync(path.join(root, "proc/sys/kernel/hostname"), `${host}\n`);
  writeFileSync(path.join(root, "proc/cpuinfo"), [0, 1].map((i) => `processor\t: ${i}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Processor\nflags\t\t: fpu tsc msr constant_tsc nonstop_tsc hypervisor\n\n`).join(""));
  const names = new Set([...lines.matchAll(/process="([^"]+)"/g)].map((m) => m[1]));
  const pids = new Map([...names].map((name, i) => [name, 1001 + i]));
  for (const [name, pid] of pids) {
    const dir = path.join(root, `proc/${pid}`);
    mkdirSync(dir);
    writeFileSync(path.join(dir, "comm"), `${name}\n`);
    writeFileSync(path.join(dir, "cmdline"), `/usr/bin/${name}\0`);
    writeFileSync(path.join(dir, "cgroup"), `0::/system.slice/${name}.service\n`);
  }
  const settings = path.join(tempDir(), "teescope.yml");
  writeFileSync(settings, `sources:\n${sources.map((s) => `  ${s}: {on: false}\n`).join("")}${config}`);
  const url = await monitor(data, "--interval", "5s", "--host-root", root, "--config", settings);
  played.set(url, { first, metrics: new Set([...lines.matchAll(/^[a-z]\w+/gm)].map((m) => m[0])) });
  return { url, first, now, pids };
}

// Sources that work on a machine with a TEE, and all metrics that only such a machine has.
const workingInTEE = ["guest_exits", "swiotlb", "swiotlb_bounces", "conversions", "unaccepted", "kvm", "vm"];
const ofTEEs = /^tee_(sgx|vm|guest|swiotlb|private|unaccepted|memory_acceptance|attestations|sev|tdx|misc|nitro|gpu)/;

/** Tells the pages of a monitor that plays back that its machine has TEEs, described by kinds ({tdx: {role: "guest"}}); with everything, all their
 * sources work. Returns what ends it. */
export async function tellTEEs(context, url, kinds, everything = false) {
  const started = new Date(played.get(url).first * 1000).toISOString();
  await context.route("**/api/teescope/v1/platform", async (r) => {
    const p = await (await r.fetch({ timeout: patience })).json();
    p.started = started;
    p.tees = p.tees.map((t) => (kinds[t.kind] ? { kind: t.kind, doc: t.doc, state: "here", facts: { kind: t.kind, active: true, evidence: [{ source: "CPUID 0x21", value: "here" }], ...kinds[t.kind] } } : { ...t, state: "not here", reason: "another machine" }));
    await r.fulfill({ json: p });
  });
  await context.route("**/api/teescope/v1/sources", async (r) => {
    const list = await (await r.fetch({ timeout: patience })).json();
    const works = (s) => workingInTEE.includes(s.name) || (everything && s.metrics?.some((m) => ofTEEs.test(m)));
    await r.fulfill({ json: list.map((s) => (works(s) ? { ...s, state: "available", series: 2, reason: "" } : s)) });
  });
  return () => context.unrouteAll({ behavior: "ignoreErrors" }); // pending requests get no answer any longer
}

// What the pages of a monitor that plays back are told, by its address: it has run since the first
// reading, its sources are those of the recorded metrics, and it has no TEE, whatever this machine's
// CPU says.
const played = new Map();

async function tellRecorded(context, { first, metrics }) {
  const change = (name, f) =>
    context.route(`**/api/teescope/v1/${name}`, async (r) => {
      if (r.request().method() !== "GET") return r.fallback();
      try {
        const answer = await r.fetch({ timeout: patience });
        await r.fulfill({ response: answer, json: f(await answer.json()) });
      } catch (error) {
        if (!/closed|disposed/.test(error.message)) throw error; // the page is gone
      }
    });
  await change("platform", (p) => ({ ...p, started: new Date(first * 1000).toISOString(), tees: p.tees.map(({ kind, doc }) => ({ kind, doc, state: "not here", reason: "the recorded host has none" })) }));
  await change("sources", (list) => list.map((s) => ({ ...s, ...(s.metrics?.some((m) => metrics.has(m)) ? { state: "available", reason: "", series: 2 } : { state: "not here", reason: "the recorded host has none" }) })));
}

/** A redis-server with its own name that gets rate requests a second: a load that leaves the browser
 * its CPU and does not depend on other programs. The kernel counts the server's reads and writes,
 * independently of eBPF. */
export async function startRedis({ name = `redis-${randomBytes(3).toString("hex")}`, rate = 2000, nice = 0 } = {}) {
  const dir = tempDir();
  const which = spawnSync("sh", ["-c", "command -v redis-server"]).stdout.toString().trim();
  symlinkSync(which, path.join(dir, name));
  const port = await freePort();
  const server = start("nice", ["-n", String(nice), path.join(dir, name), "--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", dir]);
  await until("redis answers", () => canConnect(port));
  start("nice", ["-n", String(nice), path.join(path.dirname(binary), "teescope-work"), "load", "--protocol", "resp", "--address", `127.0.0.1:${port}`, "--command", "GET key:{key}", "--populate", "--rate", String(rate), "--measure", "12h"]);
  const count = () => {
    const io = readFileSync(`/proc/${server.child.pid}/io`, "utf8");
    return { at: Date.now() / 1000, read: Number(io.match(/syscr: (\d+)/)[1]), write: Number(io.match(/syscw: (\d+)/)[1]) };
  };
  /** Counts every 20 ms until end is called. */
  const watch = () => {
    const counts = [count()];
    const timer = setInterval(() => counts.push(count()), 20);
    return { counts, end: () => clearInterval(timer) };
  };
  return { name, watch, pid: server.child.pid };
}

/** The counts at a time in seconds, interpolated between the two around it, which must be within
 * that many seconds; none if the time is not between two. */
export function countAt(counts, time) {
  const i = counts.findIndex((c) => c.at >= time);
  if (i < 1) return undefined;
  const [a, b] = [counts[i - 1], counts[i]];
  const part = (time - a.at) / (b.at - a.at);
  return { read: a.read + part * (b.read - a.read), write: a.write + part * (b.write - a.write), within: b.at - a.at };
}

/** A port for a server that cannot choose one and tell it: outside the range from which the kernel chooses, and held
 * against other test files by a socket whose name only one process has (unix(7), abstract). */
async function freePort() {
  const low = Number(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s/)[0]);
  const [first, last] = low >= 11_000 ? [10_000, low - 1] : [10_000, 65_535];
  const listening = (...at) =>
    new Promise((resolve) => {
      const s = net.createServer();
      s.on("error", () => resolve(false));
      s.listen(...at, () => resolve(s.unref()));
    });
  return until("a port is free", async () => {
    const port = first + Math.floor(Math.random() * (last - first + 1));
    const held = await listening(`\0teescope-port-${port}`);
    const free = held && (await listening(port, "127.0.0.1"));
    if (free) await new Promise((resolve) => free.close(resolve));
    return free && port;
  });
}

function canConnect(port) {
  return new Promise((resolve) => {
    const s = net.connect(port, "127.0.0.1", () => resolve(s.end() && true));
    s.on("error", () => resolve(false));
  });
}

/** Waits until f returns something true, and returns it. It ends at once when a program that was started has ended. */
export async function until(what, f) {
  const end = Date.now() + patience;
  let last;
  while (Date.now() < end) {
    const gone = lost.join("\n"); // before f, which sees what the program did last
    try {
      const v = await f();
      if (v) return v;
      last = v;
    } catch (e) {
      last = e;
    }
    if (gone) throw new Error(`${what}: ${gone}; last: ${last}`);
    await pause(100);
  }
  throw new Error(`${what}: not within ${patience} ms; last: ${last}`);
}

/** Writes the machine's files of fixture archives (txtar) below a folder. */
export function unpack(dir, ...archives) {
  for (const a of archives) {
    const parts = readFileSync(path.join(repository, a), "utf8").split(/^-- (.+) --\n/m);
    for (let i = 1; i < parts.length; i += 2) {
      if (!parts[i].includes("/") || parts[i].startsWith("bpf/")) continue;
      const file = path.join(dir, parts[i]);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, parts[i + 1]);
    }
  }
}

let browser;

async function launch() {
  if (!browser) {
    const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
    browser = await chromium.launch({ executablePath, args: quiet });
    cleanups.push(async () => {
      await browser.close();
      browser = undefined; // the next suite of the file starts its own
    });
  }
  return browser;
}

/** The Unix socket of a monitor that root has started. */
const socketOf = (url) => `/run/teescope/${new URL(url).port}.sock`;

/** Sends a change to a monitor through its Unix socket, as root. */
export function change(url, method, name, body) {
  return new Promise((resolve, reject) => {
    const r = http.request({ socketPath: socketOf(url), method, path: `/api/teescope/v1/${name}`, headers: { "Content-Type": "application/json" } }, (answer) => {
      let text = "";
      answer.on("data", (d) => (text += d));
      answer.on("end", () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(`${method} ${name}: ${answer.statusCode} ${text}`))));
    });
    r.on("error", reject);
    r.end(body === undefined ? "" : JSON.stringify(body));
  });
}

/** Lets a browser change the settings of a monitor, by the link that `teescope open` prints. */
export async function unlock(context, url) {
  const { path: link } = JSON.parse(await change(url, "POST", "links"));
  await context.request.get(`${new URL(url).origin}/${link}`, { maxRedirects: 0 });
}

/** A page in a separate context. check() fails if it broke the security policy, threw, or made a
 * request to another host. A page that throws is closed, which ends every wait for it; errors that
 * match meant are part of the test. may: it can change settings. */
export async function openPage(url, { meant, may = true, ...options } = {}) {
  const context = await (await launch()).newContext({ viewport: { width: 1280, height: 900 }, ...options });
  if (played.has(new URL(url).origin)) await tellRecorded(context, played.get(new URL(url).origin));
  if (may && existsSync(socketOf(url))) await unlock(context, url);
  const page = await context.newPage();
  context.setDefaultTimeout(patience);
  const faults = [];
  const origin = new URL(url).origin;
  page.on("console", (m) => /content.security.policy/i.test(m.text()) && faults.push(m.text()));
  page.on("pageerror", (e) => {
    if (meant?.test(e.message)) return;
    faults.push(`uncaught: ${e.message}`);
    console.error(`${url}: uncaught: ${e.stack}`);
    void context.close();
  });
  context.on("request", (r) => {
    const to = new URL(r.url());
    if (to.origin !== origin && to.protocol !== "blob:" && to.protocol !== "data:") faults.push(`request to ${to.origin}`);
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
  });
  await page.goto(url);
  const check = async () => {
    assert.deepEqual(faults, []);
    const violations = await page.evaluate(() => window.violations);
    assert.deepEqual([...faults, ...violations], []);
    await context.close();
  };
  return { page, context, check };
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The accessibility problems of the page as it is now, by axe's rules. Something that changes its look
 * slowly, as a chart that pales while it reads its data again, is judged as if it was at its end. */
export async function barriers(page) {
  await page.evaluate(axe);
  await page.evaluate(() => {
    const still = new CSSStyleSheet();
    still.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important } .dimmed { opacity: 1 !important }");
    document.adoptedStyleSheets.push(still);
  });
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 160)} (${v.nodes.length}) ${v.nodes[0].failureSummary}`);
}

/** Waits until nothing is wider than the screen and does not scroll: drawings follow the page's width a
 * frame later. */
export function fits(page, what = "the page") {
  return until(`${what} fits its width`, async () => {
    const wide = await page.evaluate(() => {
      const over = document.documentElement.scrollWidth - window.innerWidth;
      const past = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1 && !e.closest(".scroll, .rail, .ranges, .hidden"));
      return over <= 0 ? [] : [`${over} px`, ...past.slice(0, 5).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 60)}`)];
    });
    if (wide.length > 0) throw new Error(wide.join("; "));
    return true;
  });
}

/** Replaces the content of an editor with a query. */
export async function write(editor, text) {
  await editor.focus();
  await editor.press("ControlOrMeta+a");
  await editor.page().keyboard.insertText(text);
}

/** The section of a chart, by its title. */
export function chart(page, title) {
  return page.getByRole("region", { name: title, exact: true });
}

/** Waits for an element of a section that requests its data when it becomes visible. What is above the
 * section may grow until then and push it away. */
export async function reached(section, there) {
  await until(`${there} is there`, async () => {
    if ((await there.count()) > 0) return true;
    await section.scrollIntoViewIfNeeded({ timeout: 2000 });
    throw new Error("its section is in view");
  });
}

/** Waits until the chart shows data. A chart requests it when it becomes visible, and those above it
 * may grow until then. */
export async function drawn(page, title) {
  const there = page.locator(`section.panel[aria-label="${title}"][data-state=drawn]`);
  await until(`${title} is drawn`, async () => {
    if ((await there.count()) > 0) return true;
    const seen = chart(page, title);
    await seen.scrollIntoViewIfNeeded({ timeout: 2000 });
    throw new Error(`it is ${await seen.getAttribute("data-state")}: ${await seen.innerText()}`);
  });
}

/** Waits until nothing on the screen is being read. */
export function filled(page) {
  return until("nothing on the screen is being read", async () => (await page.locator("[data-state=loading], [aria-busy=true], .explain-loading, .page-loading").evaluateAll((all) => all.filter((e) => e.getBoundingClientRect().top < window.innerHeight).length)) === 0);
}

/** The moment closest to a time in Unix seconds at which a clock here shows hh:mm:ss. */
export function secondsOf(clock, near) {
  const at = new Date(near * 1000);
  at.setHours(...clock.split(":").map(Number), 0);
  const seconds = at.getTime() / 1000;
  return seconds - Math.round((seconds - near) / 86_400) * 86_400;
}

/** The clock of a page, which stands at a time in Unix seconds unless run is called, and the requests
 * that the page makes. The page must not be open yet. */
export async function driveClock(page, at) {
  // React draws in tasks of a few milliseconds, by messages, which the clock does not hold: each turn lets one of them go first.
  const settle = async () => {
    for (let i = 0; i < 20; i++) {
      await new Promise((turn) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = turn;
        port2.postMessage(0);
      });
    }
  };
  let open = 0;
  page.on("request", () => open++);
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, () => open--);
  const answered = () => until("all requests are answered", () => open === 0);
  await page.clock.install({ time: at * 1000 });
  return {
    /** Lets the page's clock stand from now on. */
    stop: () => page.clock.pauseAt((at + 600) * 1000),
    /** Lets that many seconds pass on the page, in steps of a tenth; answers do not take any time,
     * unless they are not waited for. */
    run: async (seconds, { wait = true } = {}) => {
      for (let i = 0; i < seconds * 10; i++) {
        await page.clock.runFor(100);
        await page.evaluate(settle);
        if (wait) await answered();
      }
    },
  };
}

/** The time in Unix seconds, as the pages and the monitor see it. */
export const seconds = () => Date.now() / 1000;
