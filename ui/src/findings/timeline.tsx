// When findings were open: one line for each rule and subject.
import { formatLength, formatMoment, formatSince } from "../format/time";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import type { FindingsRecord } from "../api/types";
import { useMachine } from "../state/machine";
import { goTo, type Span } from "../state/place";
import { usePlace } from "../state/use-place";
import { count } from "../words/verdict";
import { spanOf, tracksOf } from "./spans";

/** More lines than this are unreadable. */
const most = 40;

export function Timeline({ findings, titles }: { findings: FindingsRecord[]; titles: Map<string, string> }) {
  const place = usePlace();
  const { window: w, tick } = useMachine();
  const { tracks, outside } = tracksOf(findings, w, tick);
  const times = outside.map((f) => spanOf(f, tick));
  const all: Span = { from: Math.floor(Math.min(...times.map((s) => s.from), w.from)), to: Math.ceil(Math.max(...times.map((s) => s.to), w.to)) };
  return (
    <section className="card" aria-labelledby="timeline">
      <div className="section-head">
        <h2 id="timeline">When</h2>
        <p>
          {formatMoment(w.from, w.to - w.from)} to {formatMoment(w.to, w.to - w.from)}.
        </p>
        {outside.length > 0 && <PlaceLink to={{ fixed: all }}>{`Show ${count(outside.length, "finding")} outside this time range`}</PlaceLink>}
      </div>
      {tracks.length === 0 ? (
        <p className="dim">No finding in this time range.</p>
      ) : (
        <ul className="timeline">
          {tracks.slice(0, most).map((t) => (
            <li key={t.id}>
              <span className="timeline-name">
                <strong>{t.subject}</strong> <span className="dim">{titles.get(t.rule) ?? t.rule}</span>
              </span>
              <span className="timeline-track">
                {t.bars.map(({ finding: f, left, width, cut }) => (
                  <PlaceLink
                    key={f.id}
                    to={goTo(place, "findings", f.id)}
                    className={`timeline-bar timeline-${f.severity} ${f.state === "open" ? "timeline-open" : ""} ${cut ? "timeline-cut" : ""}`}
                    style={{ left: `${left * 100}%`, width: `${width * 100}%` }}
                    label={`${f.severity}, ${f.state}, since ${formatSince(f.since)}, for ${lengthOf(f, tick)}: ${f.title}`}
                  />
                ))}
              </span>
              <span className="timeline-words small">
                <Severity level={t.bars[0]!.finding.severity} />
                <span className="dim">{t.bars.length === 1 ? `${t.bars[0]!.finding.state}, ${lengthOf(t.bars[0]!.finding, tick)}` : count(t.bars.length, "time")}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
      {tracks.length > most && <p className="note">{tracks.length - most} more lines are not drawn; choose a shorter time range to see them.</p>}
    </section>
  );
}

export function lengthOf(f: FindingsRecord, now: number): string {
  const { from, to } = spanOf(f, now);
  return formatLength(to - from);
}
