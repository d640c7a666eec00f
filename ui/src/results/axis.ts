// Axes of the plots of results. Places are percent of the axis, so that a plot
// needs no measuring and is as wide as its column.

export interface Axis {
  lo: number;
  hi: number;
  log: boolean;
}

/** Spans the values with a little room. Where the largest is ten times the
 * smallest or more, and all are positive, it is logarithmic, so that every arm
 * can be read; zero keeps a linear one at 0. */
export function valueAxis(values: number[], zero = false): Axis {
  const seen = values.filter(Number.isFinite);
  let lo = seen.length === 0 ? 0 : Math.min(...seen);
  let hi = seen.length === 0 ? 1 : Math.max(...seen);
  if (lo === hi) {
    const d = Math.abs(lo) * 0.05 || 1;
    [lo, hi] = [lo - d, hi + d];
  }
  if (lo > 0 && hi / lo >= 10) {
    const room = (hi / lo) ** 0.06;
    return { lo: lo / room, hi: hi * room, log: true };
  }
  const room = (hi - lo) * 0.06;
  const floor = lo >= 0 && (zero || lo - room < 0) ? 0 : lo - room;
  return { lo: floor, hi: hi + room, log: false };
}

/** Logarithmic around 1, over all ratios and the margin. */
export function ratioAxis(values: number[], margin: number): Axis {
  const seen = values.filter((v) => Number.isFinite(v) && v > 0);
  const lo = Math.min(1 / (1 + margin), ...seen);
  const hi = Math.max(1 + margin, ...seen);
  const room = Math.max(hi / lo, 1.04) ** 0.08;
  return { lo: lo / room, hi: hi * room, log: true };
}

/** Where a value stands, in percent from the low end; beyond an end, at it. */
export function placeOf(a: Axis, v: number): number {
  const at = a.log ? Math.log(v / a.lo) / Math.log(a.hi / a.lo) : (v - a.lo) / (a.hi - a.lo);
  return Math.min(100, Math.max(0, 100 * at));
}

/** Round values, about n at most. Bytes have powers of two. */
export function ticksOf(a: Axis, n: number, unit = ""): number[] {
  if (a.log && a.hi / a.lo >= 3) return decades(a, n);
  const scale = unit.startsWith("bytes") && a.hi >= 1 ? 1024 ** Math.floor(Math.log2(a.hi) / 10) : 1;
  const step = roundStep((a.hi - a.lo) / scale / Math.max(1, n)) * scale;
  const out: number[] = [];
  for (let i = Math.ceil(a.lo / step - 1e-9); i * step <= a.hi + step * 1e-9; i++) out.push(i * step + 0); // not −0
  return out;
}

function decades(a: Axis, n: number): number[] {
  for (const digits of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const out: number[] = [];
    for (let d = Math.floor(Math.log10(a.lo)); d <= Math.log10(a.hi); d++) out.push(...digits.map((m) => Number((m * 10 ** d).toPrecision(3))).filter((v) => v >= a.lo && v <= a.hi));
    if (out.length <= n) return out;
    if (digits.length === 1) return out.filter((_, i) => i % Math.ceil(out.length / n) === 0);
  }
  return [];
}

/** The next of 1, 2, 2.5 and 5 times a power of ten. */
function roundStep(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  return ([1, 2, 2.5, 5].find((m) => v <= m * p * (1 + 1e-9)) ?? 10) * p;
}
