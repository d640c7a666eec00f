// The open findings of all machines, a line for each cause.
import type { FleetCause } from "../api/types";
import { formatSince } from "../format/time";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { usePlace } from "../state/use-place";
import { count } from "../words/verdict";

/** Further causes are shown on demand. */
const most = 8;

export function CauseList({ causes }: { causes: FleetCause[] }) {
  if (causes.length === 0) return null;
  return (
    <section className="card" aria-labelledby="causes">
      <h2 id="causes">Findings by cause</h2>
      <Lines causes={causes.slice(0, most)} />
      {causes.length > most && (
        <details className="small">
          <summary>{causes.length - most} more</summary>
          <Lines causes={causes.slice(most)} />
        </details>
      )}
    </section>
  );
}

function Lines({ causes }: { causes: FleetCause[] }) {
  const { subject } = usePlace();
  return (
    <ul className="cause-lines">
      {causes.map((c) => (
        <li key={c.rule} data-cause={c.rule} data-machines={c.machines} data-findings={c.findings}>
          <Severity level={c.severity} />
          <span>
            <PlaceLink to={{ subject: c.rule === subject ? "" : c.rule }} current={c.rule === subject}>
              {count(c.machines, "machine")}: {c.title}
            </PlaceLink>{" "}
            <span className="dim small">{whom(c)}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Who has it, how often, since when. */
function whom(c: FleetCause): string {
  const names = c.names ?? [];
  const more = c.machines - names.length;
  return `${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}; ${c.findings === c.machines ? "" : `${count(c.findings, "finding")}, the first `}since ${formatSince(c.since)}`;
}
