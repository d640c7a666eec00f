// The geometry of box plots.
import type { AnomalyBox } from "../api/types";
import { csvOf } from "../query/series";

/** Every drawn value of a box. */
export function valuesOf(b: AnomalyBox): number[] {
  return [b.low, b.q1, b.median, b.q3, b.high, b.min, b.max, ...(b.outliers ?? [])];
}

/** The number of readings behind each value of a box if a window has too many and only some are
 * used; otherwise 1. */
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
  const lines = boxes.map((b) => [name(b.labels ?? {}), b.window.from, b.window.to, b.n, b.min, b.low, b.q1, b.median, b.q3, b.high, b.max, b.mean]);
  return csvOf([["series", "from", "to", "n", "min", "low", "q1", "median", "q3", "high", "max", "mean"], ...lines]);
}
