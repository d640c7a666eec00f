// Findings as marked stretches of time on charts.
import type { FindingsSeverity, Annotation } from "../api/types";
import { formatMoment } from "../format/time";
import type { Span } from "../state/place";
import { count } from "../words/verdict";
import { useCursorTime } from "./cursor";

export interface Mark extends Span {
  title: string;
  level: FindingsSeverity;
}

/** A chart with more stripes than this shows none of them. */
const most = 40;

const levels: FindingsSeverity[] = ["critical", "warning", "info"];

/** The annotations that touch the window, cut to it. One without an end has not ended. */
export function marksOf(annotations: Annotation[] | null, w: Span): Mark[] {
  return (annotations ?? [])
    .map((a) => ({
      from: Math.max(w.from, a.time / 1000),
      to: Math.min(w.to, a.timeEnd ? a.timeEnd / 1000 : w.to),
      title: a.title,
      level: levels.find((l) => a.tags?.includes(l)) ?? "info",
    }))
    .filter((m) => m.to > m.from)
    .slice(0, most);
}

/** The stretches of time that marks cover, each at the severest level there: tints
 * of marks that overlap would add up to a colour that says nothing. */
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

/** The marks in a line of words: that under the cursor, or how many there are. */
export function MarkLine({ marks }: { marks: Mark[] }) {
  const time = useCursorTime();
  if (marks.length === 0) return null;
  const under = time === null ? [] : marks.filter((m) => m.from <= time && time <= m.to);
  const [first] = under.length > 0 ? under : marks;
  const text = first && (under.length === 1 || marks.length === 1) ? `${formatMoment(first.from, 0)}–${formatMoment(first.to, 0)}: ${first.title}` : under.length > 1 ? under.map((m) => m.title).join("; ") : `${count(marks.length, "finding")} marked`;
  return (
    <p className="mark-line" title={marks.map((m) => m.title).join("\n")}>
      <span className={`mark-swatch mark-${first?.level ?? "info"}`} aria-hidden="true" />
      {text}
    </p>
  );
}
