// The time window that every chart of the page shares.
import { ranges, type Place, type Span } from "./place";

/** From and to are Unix seconds and multiples of step, so a refresh moves the window by whole steps
 * and points keep their places. */
export interface Window {
  from: number;
  to: number;
  step: number;
  /** The window ends now and moves. */
  live: boolean;
  /** When the monitor started, if known; there may be no samples before. */
  started: number | null;
  /** Where the axes of charts begin: with the window, or with the monitor's first reading if that is
   * later, so the data fills the chart. */
  begin: number;
  /** The shown machine, as the labels of its series; "" is not known yet. */
  job: string;
  instance: string;
  /** Seconds between two readings. */
  interval: number;
}

const steps = [5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
const mostPoints = 360;

/** The smallest step that keeps a chart at 360 points or fewer. */
export function stepFor(seconds: number): number {
  return steps.find((s) => seconds / s <= mostPoints) ?? 86400;
}

/** The properties of the monitor that determine a window. */
export type Monitor = Pick<Window, "started" | "job" | "instance" | "interval">;

/** The window of a place at a moment; first is the time of the oldest sample, at which the range
 * "all" starts. */
export function windowOf(p: Place, now: number, first: number | null, monitor: Monitor): Window {
  if (p.fixed) {
    const step = stepFor(p.fixed.to - p.fixed.from);
    // A fixed window is not rounded: it can be the window of a measurement.
    return { from: p.fixed.from, to: p.fixed.to, step, live: false, begin: p.fixed.from, ...monitor };
  }
  const oldest = first ?? monitor.started ?? now - ranges["15m"];
  const length = p.range === "all" ? Math.max(60, now - oldest) : ranges[p.range];
  const step = stepFor(length);
  const to = Math.floor(now / step) * step;
  const from = to - Math.ceil(length / step) * step;
  return { from, to, step, live: true, begin: from, ...monitor };
}

/** The times of a chart's points. */
export function gridOf(w: Window): number[] {
  const out: number[] = [];
  for (let t = w.from; t <= w.to + 1e-6; t += w.step) out.push(t);
  return out;
}

/** The step, in seconds, by which the window of costly answers moves. */
const stride = 30;

/** The span for costly answers: it moves in larger steps, so not every refresh requests them again. */
export function steady(w: Window): Span {
  if (!w.live) return { from: w.from, to: w.to };
  const to = Math.floor(w.to / stride) * stride;
  return { from: to - (w.to - w.from), to };
}
