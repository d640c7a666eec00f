// The charts' queries to the monitor: everything in one call, and only new points of known data. An
// answer serves all equal queries, on every page.
import { own, requestLines } from "../api/request";
import type { Answer, Line, Query } from "../api/types";
import type { VectorRow } from "./series";

/** Values, and the monitor's remarks on them: which source was sampled or blind. */
export interface Rows<T> {
  rows: T[];
  warnings: string[];
}

/** A series on the grid of a window; null is a gap. */
export interface GridRow {
  metric: { [label: string]: string };
  values: (number | null)[];
}

/** The largest series, and the sum of the others. */
export interface TopRows extends Rows<GridRow> {
  /** Null if all are among the largest. */
  rest: (number | null)[] | null;
  /** The number of series in the sum. */
  folded: number;
  /** Names the series at the top; "" without such a choice. */
  set: string;
}

/** Times in Unix seconds; the grid begins at from. */
interface Span {
  from: number;
  to: number;
  step: number;
}

interface Kept extends TopRows {
  from: number;
  /** The last step. */
  to: number;
  step: number;
  /** Steps up to this one will not change: late samples and recording rules are in. */
  settled: number;
  /** The time of the request, in ms. */
  asked: number;
}

/** Seconds after which a step no longer changes. */
const settles = 15;
/** Milliseconds for which steps that may change are shown again without a request. */
const fresh = 4000;
/** The number of answers kept: those of a few pages, and for single moments those of a few
 * refreshes. */
const mostKept = 120;
const mostMoments = 60;

const ranges = new Map<string, Kept>();
const moments = new Map<string, Promise<Rows<VectorRow>>>();
const flying = new Map<string, Promise<unknown>>();

/** Values at one time. A scalar is a row without labels. */
export function queryAt(expr: string, time: number): Promise<Rows<VectorRow>> {
  const key = `${time} ${expr}`;
  const there = moments.get(key);
  if (there) return there;
  const asked = send({ query: expr, to: time }).then((a) => ({
    rows: (a.lines ?? []).map((l) => ({ metric: l.labels ?? {}, value: [time, l.value ?? "NaN"] as [number, string] })),
    warnings: a.warnings ?? [],
  }));
  asked.catch(() => moments.delete(key));
  keep(moments, key, asked, mostMoments);
  return asked;
}

/** Values on the window's grid. */
export function queryRange(expr: string, w: Span): Promise<Rows<GridRow>> {
  return queryTop(expr, w, 0);
}

/** Values on the window's grid of the series with the largest sums over the window; 0 is all. */
export async function queryTop(expr: string, w: Span, top: number): Promise<TopRows> {
  const key = JSON.stringify([expr, w.step, w.from % w.step, top]);
  // Another chart, or the previous refresh, may be fetching this already: it is not fetched again.
  for (let other = flying.get(key); other; other = flying.get(key)) await other.catch(() => undefined);
  const have = ranges.get(key);
  if (have && covers(have, w)) return cut(have, w);
  const asked = extend(key, { query: expr, from: w.from, to: w.to, step: w.step, ...(top > 0 ? { top } : {}) }, w);
  flying.set(key, asked);
  try {
    return await asked;
  } finally {
    flying.delete(key);
  }
}

async function extend(key: string, query: Query, w: Span): Promise<TopRows> {
  const top = query.top !== undefined;
  const have = ranges.get(key);
  const now = Date.now();
  const since = have ? firstUnknown(have, w) : w.from;
  const answer = await send(have && since > w.from ? { ...query, since, ...(top ? { known: have.set } : {}) } : query);
  // With other names at the top, the answer is the whole window.
  const merged = have && answer.since > w.from ? joined(have, answer, w) : whole(answer);
  const kept: Kept = { ...merged, warnings: answer.warnings ?? [], from: w.from, to: lastStep(w), step: w.step, settled: now / 1000 - settles - w.step, asked: now };
  keep(ranges, key, kept, mostKept);
  return cut(kept, w);
}

function keep<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) if (map.size > most) map.delete(oldest);
}

function lastStep(w: Span): number {
  return w.from + Math.floor((w.to - w.from) / w.step + 1e-9) * w.step;
}

/** The number of steps between two times. */
function stepsTo(from: number, to: number, step: number): number {
  return Math.round((to - from) / step);
}

function covers(k: Kept, w: Span): boolean {
  const last = lastStep(w);
  return k.from <= w.from && last <= k.to && (last <= k.settled || Date.now() - k.asked < fresh);
}

/** The first step that is not known, or may have changed. */
function firstUnknown(k: Kept, w: Span): number {
  if (w.from < k.from || w.from > k.to || lastStep(w) < k.to) return w.from;
  const settled = k.from + Math.max(0, Math.floor((k.settled - k.from) / k.step) + 1) * k.step;
  return Math.max(w.from, Math.min(settled, k.to + k.step));
}

function nameOf(l: Pick<Line, "labels"> | { metric: GridRow["metric"] }): string {
  const labels = "metric" in l ? l.metric : (l.labels ?? {});
  return JSON.stringify(Object.entries(labels).sort());
}

type Values = Omit<TopRows, "warnings">;

function whole(a: Answer): Values {
  return { rows: (a.lines ?? []).map((l) => ({ metric: l.labels ?? {}, values: l.values ?? [] })), rest: a.rest?.values ?? null, folded: a.folded ?? 0, set: a.set ?? "" };
}

/** The known values, continued by the answer. */
function joined(k: Kept, a: Answer, w: Span): Values {
  const length = stepsTo(w.from, lastStep(w), w.step) + 1;
  const [first, known] = [stepsTo(k.from, w.from, w.step), stepsTo(w.from, a.since, w.step)];
  const join = (before: (number | null)[] | undefined, after: (number | null)[] | undefined) => {
    const out = new Array<number | null>(length).fill(null);
    before?.slice(first, first + known).forEach((v, i) => (out[i] = v));
    after?.forEach((v, i) => (out[known + i] = v));
    return out;
  };
  const young = new Map((a.lines ?? []).map((l) => [nameOf(l), l]));
  const old = new Set(k.rows.map(nameOf));
  const rows = k.rows.map((r) => ({ metric: r.metric, values: join(r.values, young.get(nameOf(r))?.values) }));
  for (const [name, l] of young) if (!old.has(name)) rows.push({ metric: l.labels ?? {}, values: join(undefined, l.values) });
  return { rows: rows.filter((r) => r.values.some((v) => v !== null)), rest: a.rest ? join(k.rest ?? undefined, a.rest.values) : null, folded: a.folded ?? 0, set: a.set ?? "" };
}

function cut(k: Kept, w: Span): TopRows {
  const first = stepsTo(k.from, w.from, w.step);
  const end = first + stepsTo(w.from, lastStep(w), w.step) + 1;
  const part = (values: (number | null)[]) => (first === 0 && end === values.length ? values : values.slice(first, end));
  return { rows: k.rows.map((r) => ({ metric: r.metric, values: part(r.values) })), rest: k.rest && part(k.rest), folded: k.folded, set: k.set, warnings: k.warnings };
}

// One call for all queries within a moment.

interface Asked {
  query: Query;
  resolve: (a: Answer) => void;
  reject: (e: unknown) => void;
}

/** Milliseconds in which queries are collected: one rendering of a page. */
const collects = 5;
/** The most calls at a time: a slow one must not hold up the others, and many would pile up. */
const mostCalls = 2;
/** The most queries in one call; the server takes 200. */
const mostQueries = 150;

const collected: Asked[] = [];
/** Milliseconds to wait for answers: several times the longest query time that the monitor allows. */
const longest = 90_000;

let calls = 0;
let took = 0;
const whenIdle: (() => void)[] = [];

/** Resolves once no call is in progress, with the milliseconds that the last one took: a refresh
 * waits for the answers to the previous one. */
export async function idle(): Promise<number> {
  if (calls > 0 || collected.length > 0) await new Promise<void>((resolve) => whenIdle.push(resolve));
  return took;
}

function send(query: Query): Promise<Answer> {
  return new Promise((resolve, reject) => {
    if (collected.push({ query, resolve, reject }) === 1) setTimeout(flush, collects);
  });
}

function flush(): void {
  while (collected.length > 0 && calls < mostCalls) void call(collected.splice(0, mostQueries));
}

async function call(asked: Asked[]): Promise<void> {
  calls++;
  const began = performance.now();
  const open = new Set(asked);
  try {
    await requestLines(`${own}queries`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ queries: asked.map((a) => a.query) }), signal: AbortSignal.timeout(longest) }, (value) => {
      const a = value as Answer;
      const one = asked[a.index];
      if (!one) return;
      open.delete(one);
      if (a.error) one.reject(new Error(a.error));
      else one.resolve(a);
    });
    throw new Error("The monitor closed the connection before it answered. Is it still running?");
  } catch (e) {
    for (const one of open) one.reject(e instanceof DOMException ? new Error(`The monitor did not answer within ${longest / 1000} s. It may be overloaded; try again, or a shorter time range.`) : e);
  } finally {
    calls--;
    took = performance.now() - began;
    flush();
    if (calls === 0 && collected.length === 0) for (const resolve of whenIdle.splice(0)) resolve();
  }
}
