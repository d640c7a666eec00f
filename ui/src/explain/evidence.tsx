// The numbers behind a statement, each with the query that gives it at that time.
import type { QueryEvidence } from "../api/types";
import { rawValue, unitOf } from "../format/number";
import { PlaceLink } from "../frame/link";
import { goTo, type Span } from "../state/place";
import { usePlace } from "../state/use-place";
import { Sentence } from "../words/term";

export function Evidence({ evidence, window }: { evidence: QueryEvidence[] | null; window: Span }) {
  const place = usePlace();
  if (!evidence?.length) return <p className="dim">There is no separate evidence.</p>;
  return (
    <ul className="evidence">
      {evidence.map((e, i) => (
        <li key={i}>
          <Sentence text={e.text} />: <b title={rawValue(e.value, unitOf(e.unit)) + (e.low === undefined ? "" : ", with its 95 % interval: the rate is estimated from part of the events")}>{e.number}</b>
          {e.expr && (
            <details className="query-behind">
              <summary aria-label={`Query of ${e.text}`} title="The query behind this number">
                {"{ }"}
              </summary>
              <PlaceLink to={{ ...goTo(place, "explore", "", e.expr), fixed: window }}>
                <code>{e.expr}</code>
              </PlaceLink>
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
