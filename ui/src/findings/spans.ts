// Findings on a time axis.
import type { FindingsRecord } from "../api/types";
import type { Span } from "../state/place";
import { whomOf } from "../words/problem";

/** Start and end of a finding, in Unix seconds; an open one has no end yet. */
export function spanOf(f: FindingsRecord, now: number): Span {
  const from = Date.parse(f.since) / 1000;
  return { from, to: Math.max(from, f.until ? Date.parse(f.until) / 1000 : now) };
}

/** The window that shows how a finding began and ended: with its duration added on each side. */
export function around(f: FindingsRecord, now: number): Span {
  const { from, to } = spanOf(f, now);
  const margin = Math.max(120, Math.min(1800, (to - from) / 2));
  return { from: Math.floor(from - margin), to: Math.ceil(Math.min(now, to + margin)) };
}

export interface Bar {
  finding: FindingsRecord;
  /** Share of the axis, 0 to 1. */
  left: number;
  width: number;
  /** The finding began before the axis does. */
  cut: boolean;
}

/** A line of the timeline: the times at which one rule had a finding about one subject, or one unit of it. */
export interface Track {
  id: string;
  subject: string;
  rule: string;
  bars: Bar[];
}

/** The findings that touch the window as lines, the latest finding first, and the number of findings
 * outside. */
export function tracksOf(findings: FindingsRecord[], w: Span, now: number): { tracks: Track[]; outside: FindingsRecord[] } {
  const tracks = new Map<string, Track>();
  const outside: FindingsRecord[] = [];
  for (const f of findings.toSorted((a, b) => b.since.localeCompare(a.since))) {
    const { from, to } = spanOf(f, now);
    if (to < w.from || from > w.to) {
      outside.push(f);
      continue;
    }
    const subject = whomOf(f);
    const id = `${f.rule} ${subject}`;
    const track = tracks.get(id) ?? { id, subject, rule: f.rule, bars: [] };
    const at = (t: number) => Math.max(0, Math.min(1, (t - w.from) / (w.to - w.from)));
    track.bars.push({ finding: f, left: at(from), width: at(to) - at(from), cut: from < w.from });
    tracks.set(id, track);
  }
  return { tracks: [...tracks.values()], outside };
}
