// Findings as marked periods of time on charts.
import type { FindingsRecord, FindingsSeverity, Annotation } from "../api/types";
import type { Span } from "../state/place";

export interface Mark extends Span {
  /** The finding's. */
  id: string;
  title: string;
  level: FindingsSeverity;
}

/** A chart with more stripes than this shows none. */
const most = 40;

const levels: FindingsSeverity[] = ["critical", "warning", "info"];

/** The annotations that touch the window, cut to it. One without an end is still open. The title of an
 * annotation names the rule for Grafana; its text is the finding in words. */
export function marksOf(annotations: Annotation[] | null, w: Span): Mark[] {
  return (annotations ?? [])
    .map((a) => ({
      id: a.id,
      from: Math.max(w.from, a.time / 1000),
      to: Math.min(w.to, a.timeEnd ? a.timeEnd / 1000 : w.to),
      title: a.text || a.title,
      level: levels.find((l) => a.tags?.includes(l)) ?? "info",
    }))
    .filter((m) => m.to > m.from)
    .slice(0, most);
}

/** What a chart shows: the subjects of its lines and of its page, its metrics and its query. */
export interface Shown {
  subjects: string[];
  metrics: string[];
  expr: string;
}

/** The findings whose evidence a chart shows: the same query, or the same metric of the same
 * subject. Findings about the machine concern every line. */
export function evidentOn(findings: FindingsRecord[], { subjects, metrics, expr }: Shown): Set<string> {
  const shows = (f: FindingsRecord) =>
    f.evidence?.some((e) => e.expr === expr || ((f.subject === "machine" || subjects.includes(f.subject)) && metrics.some((m) => e.expr.includes(m))));
  return new Set(findings.filter(shows).map((f) => f.id));
}

/** The periods that marks cover, each at its highest severity: overlapping tints would mix to a
 * meaningless colour. */
export function covered(marks: Mark[]): (Span & Pick<Mark, "level">)[] {
  const edges = [...new Set(marks.flatMap((m) => [m.from, m.to]))].sort((a, b) => a - b);
  const out: ReturnType<typeof covered> = [];
  for (const [i, to] of edges.entries()) {
    const from = edges[i - 1] ?? to;
    const level = levels.find((l) => marks.some((m) => m.level === l && m.from < to && m.to > from));
    if (!level || from === to) continue;
    const last = out.at(-1);
    if (last?.to === from && last.level === level) last.to = to;
    else out.push({ from, to, level });
  }
  return out;
}
