import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Answer, Query } from "../api/types";

// A monitor that knows the value of every step: its time. Each test has its own feed.
let feed: typeof import("./feed");
let calls: Query[][];
let answer: (q: Query) => Omit<Answer, "index" | "since">;
let hold: Promise<void>;

const time = (t: number) => t % 1000;
function values(q: Query, of: (t: number) => number | null = time): (number | null)[] {
  const out: (number | null)[] = [];
  for (let t = q.since ?? q.from!; t <= q.to; t += q.step!) out.push(of(t));
  return out;
}

beforeEach(async () => {
  vi.resetModules();
  vi.useFakeTimers({ now: 1_700_000_003_000 });
  calls = [];
  hold = Promise.resolve();
  answer = (q) => ({ lines: [{ labels: { process: "a" }, values: values(q) }] });
  vi.stubGlobal("fetch", async (_: string, init: { body: string }) => {
    const { queries } = JSON.parse(init.body) as { queries: Query[] };
    calls.push(queries);
    await hold;
    // As the monitor does if another set is at the top.
    for (const q of queries) if (q.since && q.known !== undefined && q.known !== answer(q).set) delete q.since;
    // The last one first, and cut in the middle of a line.
    const text = queries.map((q, index) => JSON.stringify({ index, since: q.since ?? q.from ?? q.to, ...answer(q) })).reverse().join("\n") + "\n";
    return new Response(new Blob([text.slice(0, 25), text.slice(25)]).stream());
  });
  feed = await import("./feed");
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function wait<T>(p: Promise<T>): Promise<T> {
  p.catch(() => undefined);
  await vi.advanceTimersByTimeAsync(20);
  return p;
}
const window = (to = Math.floor(Date.now() / 5000) * 5) => ({ from: to - 300, to, step: 5 });

test("what is asked in one moment is one call, and the same is asked once", async () => {
  const w = window();
  const [a, b, c] = await wait(Promise.all([feed.queryRange("a", w), feed.queryRange("a", w), feed.queryTop("b", w, 5)]));
  expect(calls.map((list) => list.map((q) => [q.query, q.top]))).toEqual([[["a", undefined], ["b", 5]]]);
  expect(a.rows[0]!.values).toEqual(values({ query: "", ...w }));
  expect(b).toEqual(a);
  expect(c.rows).toEqual(a.rows);
});

test("a refresh asks for what is new, and for the steps that may have changed", async () => {
  await wait(feed.queryRange("a", window()));
  for (let i = 0; i < 5; i++) {
    vi.advanceTimersByTime(5000);
    const w = window();
    const { rows } = await wait(feed.queryRange("a", w));
    expect(rows[0]!.values).toEqual(values({ query: "", ...w }));
    expect(calls.at(-1)![0]!.since).toBe(w.to - 20);
  }
  // Another page with the same window sends no request.
  await wait(feed.queryRange("a", window()));
  expect(calls.length).toBe(6);
});

test("a series that begins has gaps before, one that ended has gaps after, one of gaps alone is left out", async () => {
  answer = (q) => ({ lines: [{ labels: { process: "old" }, values: values(q) }, { labels: { process: "first" }, values: values(q, (t) => (t === q.from ? 1 : null)) }] });
  const w = window();
  await wait(feed.queryRange("a", w));
  vi.advanceTimersByTime(5000);
  answer = (q) => ({ lines: [{ labels: { process: "new" }, values: values(q) }] });
  const { rows } = await wait(feed.queryRange("a", window()));
  expect(rows.map((r) => r.metric["process"])).toEqual(["old", "new"]);
  expect(rows[0]!.values.slice(-6).map((v) => v === null)).toEqual([false, true, true, true, true, true]);
  expect(rows[1]!.values.findIndex((v) => v !== null)).toBe(rows[1]!.values.length - 5);
});

test("other names at the top come with the whole window", async () => {
  let set = "one";
  answer = (q) => ({ lines: [{ labels: { process: set }, values: values(q) }], rest: { values: values(q) }, folded: 3, set });
  await wait(feed.queryTop("a", window(), 1));
  vi.advanceTimersByTime(5000);
  await wait(feed.queryTop("a", window(), 1));
  expect(calls.map((c) => [c[0]!.since, c[0]!.known])).toEqual([[undefined, undefined], [window().to - 20, "one"]]);
  vi.advanceTimersByTime(5000);
  set = "other";
  const { rows, rest } = await wait(feed.queryTop("a", window(), 1));
  const all = values({ query: "", ...window() });
  expect([calls.length, rows.map((r) => r.metric["process"]), rows[0]!.values, rest]).toEqual([3, ["other"], all, all]);
});

test("a refresh waits for the answer to the one before and takes what it got", async () => {
  let go = () => {};
  hold = new Promise((resolve) => (go = resolve));
  const first = feed.queryRange("a", window());
  await vi.advanceTimersByTimeAsync(7000);
  let idle = false;
  void feed.idle().then(() => (idle = true));
  const second = feed.queryRange("a", window());
  await vi.advanceTimersByTimeAsync(100);
  expect([calls.length, idle]).toEqual([1, false]);
  go();
  expect((await wait(first)).rows.length).toBe(1);
  const w = window();
  expect((await wait(second)).rows[0]!.values).toEqual(values({ query: "", ...w }));
  expect(calls[1]![0]!.since).toBeGreaterThan(w.from);
  expect(idle).toBe(true);
});

test("at most two calls at a time: later queries share the next call", async () => {
  let go = () => {};
  hold = new Promise((resolve) => (go = resolve));
  const asked = [];
  for (const expr of ["a", "b", "c", "d"]) {
    asked.push(feed.queryRange(expr, window()));
    await vi.advanceTimersByTimeAsync(20);
  }
  expect(calls.length).toBe(2);
  go();
  await wait(Promise.all(asked));
  expect(calls.map((list) => list.map((q) => q.query))).toEqual([["a"], ["b"], ["c", "d"]]);
});

test("each query fails by itself, and with the call", async () => {
  answer = (q) => (q.query === "bad" ? { lines: null, error: "parse error" } : { lines: [] });
  const w = window();
  const [good, bad] = [feed.queryRange("good", w), feed.queryRange("bad", w)];
  await expect(wait(bad)).rejects.toThrow("parse error");
  await expect(wait(good)).resolves.toMatchObject({ rows: [] });
  // Failed queries are sent again.
  answer = () => ({ lines: [] });
  await expect(wait(feed.queryRange("bad", w))).resolves.toMatchObject({ rows: [] });
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("network")));
  await expect(wait(feed.queryAt("x", 1))).rejects.toThrow("The monitor does not answer");
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("")));
  await expect(wait(feed.queryAt("x", 1))).rejects.toThrow("closed the connection before it answered");
});

test("a value at one time may be infinite", async () => {
  answer = () => ({ lines: [{ labels: { le: "1" }, value: "+Inf" }, { value: "NaN" }], warnings: ["half"] });
  const { rows, warnings } = await wait(feed.queryAt("x", 1000));
  expect(rows).toEqual([{ metric: { le: "1" }, value: [1000, "+Inf"] }, { metric: {}, value: [1000, "NaN"] }]);
  expect(warnings).toEqual(["half"]);
});
