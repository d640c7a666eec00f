// The geometry of box plots.
import type { AnomalyBox } from "../api/types";

/** Where values lie on an axis of a given length; a logarithmic one where they
 * are all above zero and differ by more than a hundred times. */
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

/** 1, 2 or 5 times a power of ten, no smaller than asked for. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((m) => m * power >= least * (1 - 1e-9)) ?? 10) * power;
}

/** Every value that is drawn of a box. */
export function valuesOf(b: AnomalyBox): number[] {
  return [b.low, b.q1, b.median, b.q3, b.high, b.min, b.max, ...(b.outliers ?? [])];
}

/** How many readings stand behind each value of a box, where a window has so many that
 * some of them are looked at; else 1. */
export function readingsPerValue(boxes: AnomalyBox[], interval: number): number {
  const most = Math.max(0, ...boxes.map((b) => b.n));
  const length = boxes[0] ? (Date.parse(boxes[0].window.to) - Date.parse(boxes[0].window.from)) / 1000 : 0;
  const per = most > 0 ? length / interval / most : 1;
  return per >= 2 ? Math.round(per) : 1;
}

/** The boxes by series, each with its windows in order. */
export function bySeries(boxes: AnomalyBox[], name: (labels: { [label: string]: string }) => string): { name: string; boxes: AnomalyBox[] }[] {
  const out = new Map<string, AnomalyBox[]>();
  for (const b of boxes) {
    const key = name(b.labels ?? {});
    out.set(key, [...(out.get(key) ?? []), b]);
  }
  return [...out].map(([key, list]) => ({ name: key, boxes: list.sort((a, b) => a.window.from.localeCompare(b.window.from)) }));
}

/** Comma-separated text, a line for each box. */
export function boxesCSV(boxes: AnomalyBox[], name: (labels: { [label: string]: string }) => string): string {
  const cell = (s: string) => (/[",\n]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);
  const lines = boxes.map((b) => [cell(name(b.labels ?? {})), b.window.from, b.window.to, b.n, b.min, b.low, b.q1, b.median, b.q3, b.high, b.max, b.mean].join(","));
  return ["series,from,to,n,min,low,q1,median,q3,high,max,mean", ...lines].join("\n") + "\n";
}
