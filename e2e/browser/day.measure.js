// A page that stays open for a day does not grow: its heap by less than 2 MiB, its documents, nodes and listeners by at most a fifth. The test advances its clock, and a proxy answers for the
// monitor: it repeats the answers of a few seconds with later times, so every refresh shows a new
// window.
//
// TEESCOPE_BROWSER_REFRESHES is the number of measured refreshes; a day of them, one every five
// seconds, is 17280.
import assert from "node:assert/strict";
import http from "node:http";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { cleanUp, drawn, missing, openPage, playBack } from "./harness.js";

const every = 5; // seconds between two refreshes
const lap = 10; // seconds of the monitor that the proxy repeats
const warmUp = 40; // refreshes after which all caches are full
const refreshes = Number(process.env.TEESCOPE_BROWSER_REFRESHES ?? 160);

/** The monitor at url, with a clock that advances by ahead seconds instead of by itself. */
async function replay(url) {
  const state = { now: Math.floor(Date.now() / 1000 / every) * every, ahead: 0, asked: 0, open: 0, last: 0, answers: 0 };
  const told = new Map();
  const tell = async (target, queries) => {
    const r = await fetch(target, queries && { method: "POST", body: queries });
    const known = { status: r.status, type: r.headers.get("content-type"), policy: r.headers.get("content-security-policy"), body: Buffer.from(await r.arrayBuffer()) };
    if (queries && r.ok) known.answers = known.body.toString().trimEnd().split("\n").map((l) => JSON.parse(l));
    return known;
  };
  const server = http.createServer(async (request, response) => {
    state.asked++;
    state.open++;
    const target = new URL(request.url, url);
    const back = lap + Math.floor(state.ahead / lap) * lap;
    for (const k of ["start", "end", "time", "from", "to"]) if (target.searchParams.has(k)) target.searchParams.set(k, String(Number(target.searchParams.get(k)) - back));
    const earlier = (key, v) => (["from", "to", "since"].includes(key) && typeof v === "number" ? v - back : v);
    const queries = target.pathname.endsWith("/queries") ? JSON.stringify(JSON.parse(await text(request)), earlier) : undefined;
    const key = target.href + (queries ?? "");
    if (!told.has(key)) told.set(key, await tell(target, queries));
    const { status, type, policy, body, answers } = told.get(key);
    response.writeHead(status, { "Content-Type": type, "Content-Security-Policy": policy });
    state.answers += answers?.length ?? 0;
    response.end(answers ? answers.map((a) => JSON.stringify({ ...a, since: a.since && a.since + back })).join("\n") : body);
    state.open--;
    state.last = performance.now();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, state, close: () => server.close().closeAllConnections() };
}

describe("a page that stays open for a day", { skip: missing({ root: false }) }, () => {
  let url;
  before(async () => {
    ({ url } = await playBack());
  });
  after(cleanUp);

  for (const [name, search, title] of [
    ["now", "", "CPU by process, percent of one core"],
    ["processes", "page=processes&", "System calls per second, by process and call"],
  ]) {
    test(`${name} holds no more after ${refreshes} refreshes`, async (t) => {
      const { url: at, state, close } = await replay(url);
      try {
        const { page, context, check } = await openPage(`${at}/-/healthy`, { viewport: { width: 1280, height: 2400 } });
        await page.addInitScript((start) => {
          window.clock = start;
          Date.now = () => window.clock;
        }, state.now * 1000);
        const session = await context.newCDPSession(page);
        await session.send("HeapProfiler.enable");
        /** The memory left after garbage collection: the minimum of a few samples, since elements
         * just removed from the page may not be freed yet. Samples during which the page made
         * requests, which it also does by itself, do not count, and it uses less memory while it
         * redraws. */
        const held = async () => {
          const looks = [];
          for (let tries = 0; looks.length < 3; tries++) {
            assert.ok(tries < 50, "the page never stops asking");
            const asked = state.asked;
            await new Promise((resolve) => setTimeout(resolve, 200));
            await session.send("HeapProfiler.collectGarbage");
            const { usedSize: bytes } = await session.send("Runtime.getHeapUsage");
            const counters = await session.send("Memory.getDOMCounters");
            if (state.open === 0 && state.asked === asked) looks.push({ bytes, ...counters });
          }
          return looks.reduce((a, b) => Object.fromEntries(Object.keys(a).map((k) => [k, Math.min(a[k], b[k])])));
        };
        /** Advances by one refresh, until no more requests follow. */
        const refresh = async () => {
          const began = performance.now();
          state.ahead += every;
          await page.evaluate((now) => {
            window.clock = now;
            document.dispatchEvent(new Event("visibilitychange"));
          }, (state.now + state.ahead) * 1000);
          while (state.open > 0 || state.last < began || performance.now() - state.last < 20) await new Promise((resolve) => setTimeout(resolve, 5));
        };
        await page.goto(`${at}/?${search}range=5m&refresh=${every}`);
        await drawn(page, title);
        for (let i = 0; i < warmUp; i++) await refresh();
        const [first, answers, began] = [await held(), state.answers, performance.now()];
        for (let i = 0; i < refreshes; i++) await refresh();
        const last = await held();
        t.diagnostic(`${((performance.now() - began) / refreshes).toFixed(0)} ms each; held after ${warmUp}: ${JSON.stringify(first)}, after ${refreshes} more: ${JSON.stringify(last)}`);
        assert.equal(await page.locator(`section.panel[aria-label="${title}"]`).getAttribute("data-state"), "drawn");
        assert.ok(state.answers - answers >= 2 * refreshes, `${state.answers - answers} queries were answered`);
        assert.ok(last.bytes - first.bytes < 2 * 2 ** 20, `the heap grew from ${first.bytes} bytes to ${last.bytes}`);
        for (const what of ["documents", "nodes", "jsEventListeners"]) assert.ok(last[what] <= first[what] * 1.2, `${what}: ${first[what]}, then ${last[what]}`);
        await check();
      } finally {
        close();
      }
    });
  }
});
