// The open problems, a row each, and the notes behind a line.
import type { FindingsRecord } from "../api/types";
import { colourOf } from "../charts/palette";
import { Spark } from "../charts/spark";
import { formatValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { useProcesses } from "../state/processes";
import { usePlace } from "../state/use-place";
import { isOwn, problemsOf, subjectOf, type Problem } from "../words/problem";
import { count, openFindings } from "../words/verdict";

/** The number of effects of a problem shown at once. */
const mostEffects = 3;

export function Problems() {
  const { findings } = useMachine();
  const problems = problemsOf(findings.data);
  const processes = useProcesses(problems.length > 0);
  if (problems.length === 0) return null;
  return (
    <section id="problems" tabIndex={-1} className="card problems" aria-label="Open problems">
      <ul>
        {problems.map((p) => (
          <Row key={p.lead.id} problem={p} processes={processes} />
        ))}
      </ul>
    </section>
  );
}

function Row({ problem: p, processes }: { problem: Problem; processes: Set<string> }) {
  const { lead } = p;
  const first = lead.evidence?.[0];
  return (
    <li className="problem-row" data-problem={lead.rule} data-subject={subjectOf(lead)}>
      <div className="problem-head">
        <Severity level={p.severity} />
        <span className="dim small">
          since {formatSince(p.since)}; value {formatLength(lead.age)} old
        </span>
      </div>
      <div className="problem-words">
        <strong>
          <PlaceLink to={{ problem: lead.id }}>{p.title}</PlaceLink>
        </strong>
        <span className="dim small">
          <Subject name={subjectOf(lead)} processes={processes} />
          {lead.share && ` · ${formatValue(lead.share[0], "ratio")} to ${formatValue(lead.share[1], "ratio")} of ${lead.shareOf ?? "its time"}`}
        </span>
        {p.effects.length > 0 && <Effects list={p.effects.slice(0, mostEffects)} />}
        {p.effects.length > mostEffects && (
          <details className="small">
            <summary>{p.effects.length - mostEffects} more</summary>
            <Effects list={p.effects.slice(mostEffects)} />
          </details>
        )}
      </div>
      {first && <Spark expr={first.expr} label={first.text} colour={`--series-${colourOf(subjectOf(lead))}`} />}
    </li>
  );
}

function Effects({ list }: { list: FindingsRecord[] }) {
  return (
    <ul className="problem-effects small">
      {list.map((f) => (
        <li key={f.id} data-effect={f.rule}>
          <PlaceLink to={{ problem: f.id }}>{f.sentence ?? f.title}</PlaceLink>
        </li>
      ))}
    </ul>
  );
}

/** A process leads to its page. */
function Subject({ name, processes }: { name: string; processes: Set<string> }) {
  const place = usePlace();
  return processes.has(name) ? <PlaceLink to={goTo(place, "processes", name)}>{name}</PlaceLink> : name;
}

/** Things worth knowing that are not a problem. */
export function Notes() {
  const { findings } = useMachine();
  const notes = openFindings(findings.data).filter((f: FindingsRecord) => f.severity === "info" && !isOwn(f));
  if (notes.length === 0) return null;
  return (
    <details className="notes">
      <summary>{count(notes.length, "note")}</summary>
      <ul className="evidence">
        {notes.map((f) => (
          <li key={f.id}>
            <PlaceLink to={{ problem: f.id }}>{f.sentence ?? f.title}</PlaceLink> <span className="dim small">since {formatSince(f.since)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
