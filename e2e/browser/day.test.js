// A page that stays open for a day. Its clock is led on by hand, and a proxy answers
// for the monitor: what was said of a few seconds is said again and again, later each
// time, so that every refresh looks at a window that was never there before.
//
// TEESCOPE_BROWSER_REFRESHES is how many refreshes are measured; a day of them, one
// every five seconds, is 17280.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, describe, test } from "node:test";
import { cleanUp, drawn, missing, openPage, startMonitor, until } from "./harness.js";

const every = 5; // seconds between two refreshes
const lap = 10; // seconds of the monitor that are told again and again
const warmUp = 40; // refreshes after which everything that is kept is there
const refreshes = Number(process.env.TEESCOPE_BROWSER_REFRESHES ?? 160);

/** The monitor at url, at a time that goes on by ahead seconds instead of by itself. */
async function replay(url) {
  const state = { now: Math.floor(Date.now() / 1000 / every) * every, ahead: 0, asked: 0, open: 0, last: 0, answers: 0 };
  const told = new Map();
  const tell = async (target) => {
    const r = await fetch(target);
    const known = { status: r.status, type: r.headers.get("content-type"), policy: r.headers.get("content-security-policy"), body: Buffer.from(await r.arrayBuffer()) };
    if (target.pathname.endsWith("/query_range") && r.ok) known.rows = JSON.parse(known.body);
    return known;
  };
  const server = http.createServer(async (request, response) => {
    state.asked++;
    state.open++;
    const target = new URL(request.url, url);
    const back = lap + Math.floor(state.ahead / lap) * lap;
    for (const k of ["start", "end", "time", "from", "to"]) if (target.searchParams.has(k)) target.searchParams.set(k, String(Number(target.searchParams.get(k)) - back));
    if (!told.has(target.href)) told.set(target.href, await tell(target));
    const { status, type, policy, body, rows } = told.get(target.href);
    response.writeHead(status, { "Content-Type": type, "Content-Security-Policy": policy });
    if (target.pathname.startsWith("/api/v1/")) state.answers++;
    response.end(rows ? JSON.stringify(rows, (key, v) => (key === "values" ? v.map(([at, value]) => [at + back, value]) : v)) : body);
    state.open--;
    state.last = performance.now();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, state, close: () => server.close().closeAllConnections() };
}

describe("a page that stays open for a day", { skip: missing() }, () => {
  let url;
  before(async () => {
    url = await startMonitor();
    const readings = `${url}/api/v1/query?query=${encodeURIComponent('min(count_over_time(teescope_source_up{source="syscalls"}[1m]))')}`;
    await until("a lap and more is stored", async () => Number((await (await fetch(readings)).json()).data.result[0]?.value[1]) >= lap + 2 * every);
  });
  after(cleanUp);

  for (const [name, search, title] of [
    ["overview", "", "System calls per second"],
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
        /** What is left when garbage has been collected: the least of a few looks, since
         * what was just taken off the page may still be on its way out. In none of them
         * the page asked for anything, as it does by itself too, and while it draws anew it
         * holds less. */
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
        /** Goes on by a refresh, until nothing more is asked for. */
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
