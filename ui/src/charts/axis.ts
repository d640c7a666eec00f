// Axes of values and of time: their ends and their numbers.
import type { Unit } from "../format/number";

/** From zero, or from below the smallest value, with some space. */
export function rangeOf(min: number, max: number): [number, number] {
  return [min < 0 ? min * 1.08 : 0, max > 0 ? max * 1.08 : min < 0 ? 0 : 1];
}

/** The positions of values on an axis of a given length; logarithmic if all are above zero and
 * differ by more than a factor of a hundred. */
export interface Axis {
  at: (v: number) => number;
  ticks: number[];
  log: boolean;
}

export function axisOf(values: number[], length: number): Axis {
  const low = Math.min(...values);
  const high = Math.max(...values);
  if (low > 0 && high / low > 100) {
    const [a, b] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const every = Math.ceil((b - a) / 6);
    return { log: true, at: (v) => ((Math.log10(v) - a) / (b - a)) * length, ticks: Array.from({ length: Math.floor((b - a) / every) + 1 }, (_, i) => 10 ** (a + i * every)) };
  }
  const from = Math.min(0, low);
  const span = high - from || Math.abs(high) || 1;
  const step = niceStep(span / 5);
  const [first, last] = [Math.floor(from / step), Math.ceil((from + span) / step)];
  return { log: false, at: (v) => ((v / step - first) / (last - first)) * length, ticks: Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step) };
}

/** 1, 2 or 5 times a power of ten, no smaller than the argument. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((m) => m * power >= least * (1 - 1e-9)) ?? 10) * power;
}

/** Round numbers of bytes are powers of two. */
export const powersOfTwo = Array.from({ length: 61 }, (_, i) => 2 ** i);

/** The smallest round distance between two numbers of an axis that is no smaller than the argument. */
export function stepOf(least: number, unit: Unit): number {
  return unit.startsWith("bytes") ? 2 ** Math.ceil(Math.log2(least)) : niceStep(least);
}

/** Round distances between two times of an axis, in seconds. */
export const spacings = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

/** Labels with seconds are wide, so only short windows have them. */
export const wholeMinutes = spacings.filter((s) => s >= 60);
