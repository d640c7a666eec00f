// Histograms: of plain values, and of the buckets that Prometheus counts.
import { niceStep } from "../charts/axis";
import { csvOf, type VectorRow } from "../query/series";

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** About twenty bins of a round width that hold all the values. */
export function binsOf(values: number[], about = 20): Bin[] {
  if (values.length === 0) return [];
  // One by one: a call with a million arguments overflows the stack.
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (low === high) return [{ from: low, to: high, count: values.length }];
  const width = niceStep((high - low) / about);
  const first = Math.floor(low / width);
  const bins: Bin[] = Array.from({ length: Math.floor(high / width) - first + 1 }, (_, i) => ({ from: (first + i) * width, to: (first + i + 1) * width, count: 0 }));
  for (const v of values) bins[Math.min(bins.length - 1, Math.floor(v / width) - first)]!.count++;
  return bins;
}

/** The bins of a classic histogram: rows count everything that is at most their "le". Rows of other
 * labels are added up. Null without such a label. */
export function binsOfBuckets(rows: VectorRow[]): Bin[] | null {
  const sums = new Map<number, number>();
  for (const r of rows) {
    const le = r.metric["le"];
    if (le === undefined) return null;
    const bound = boundOf(le);
    const v = Number(r.value[1]);
    if (!Number.isNaN(bound) && Number.isFinite(v)) sums.set(bound, (sums.get(bound) ?? 0) + v);
  }
  if (sums.size === 0) return null;
  let from = 0;
  let below = 0;
  const bins = [...sums]
    .sort((a, b) => a[0] - b[0])
    .map(([to, total]) => {
      // Counters that are read one after another may disagree by a few.
      const bin = { from, to, count: Math.max(0, total - below) };
      from = to;
      below = total;
      return bin;
    });
  // Empty bins at both ends carry no information.
  const used = bins.map((b) => b.count > 0);
  return bins.slice(Math.max(0, used.indexOf(true)), used.lastIndexOf(true) + 1);
}

/** The values of one bucket of a classic histogram over time. */
export interface Band {
  to: number;
  values: (number | null)[];
}

/** The values between two bounds at each time, the highest first. Rows of the same bound and other
 * labels are added up, as in binsOfBuckets. */
export function bandsOf(rows: { le: string; values: (number | null)[] }[]): Band[] {
  const sums = new Map<number, (number | null)[]>();
  for (const r of rows) {
    const sum = sums.get(boundOf(r.le));
    sums.set(boundOf(r.le), sum ? sum.map((v, k) => added(v, r.values[k] ?? null)) : r.values);
  }
  const sorted = [...sums].filter(([to]) => !Number.isNaN(to)).sort((a, b) => b[0] - a[0]);
  return sorted.map(([to, values], i) => {
    const below = sorted[i + 1]?.[1];
    return { to, values: values.map((v, k) => (v === null ? null : Math.max(0, v - (below?.[k] ?? 0)))) };
  });
}

function added(a: number | null, b: number | null): number | null {
  return a === null ? b : a + (b ?? 0);
}

function boundOf(le: string): number {
  return le === "+Inf" ? Infinity : Number(le);
}

/** Comma-separated text, a line for each bin. */
export function binsCSV(bins: Bin[]): string {
  return csvOf([["from", "to", "count"], ...bins.map((b) => [b.from, b.to, b.count])]);
}
