// The verdicts, one sentence each, with their evidence, their weaknesses and what would settle
// them.
import type { ResultComparison, ResultExperiment } from "../api/types";
import { formatTimes, formatValue } from "../format/number";
import { armsText, doubtsOf, gradeMeans, headlineOf, kindOf, lookOf, noRatio, replicates } from "../words/benchmark";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { caseIds, collapsed, primaries, tellingOf } from "./document";
import { VerdictChip } from "./marks";

const most = 3;

export function Conclusions({ doc }: { doc: ResultExperiment }) {
  const all = primaries(doc);
  if (all.length === 0) {
    return (
      <section className="verdict" aria-label="Verdict">
        <div>
          <h2>No verdict</h2>
          <p>{whyNothing(doc)}</p>
        </div>
      </section>
    );
  }
  // The comparison named in the list comes first.
  const telling = tellingOf(all);
  const sorted = collapsed([...all.filter((c) => c === telling), ...all.filter((c) => c !== telling)]);
  const rest = sorted.slice(most);
  const each = ([c, ...also]: ResultComparison[]) => c && <Conclusion key={`${c.case} ${c.treatment} ${c.baseline}`} doc={doc} c={c} also={also} />;
  return (
    <>
      {sorted.slice(0, most).map(each)}
      {rest.length > 0 && (
        <details className="more">
          <summary>{rest.length === 1 ? "1 more verdict" : `${rest.length} more verdicts`}, in the plot below too</summary>
          {rest.map(each)}
        </details>
      )}
    </>
  );
}

export function whyNothing(doc: ResultExperiment): string {
  if ((doc.runs ?? []).length === 0) return "Nothing has run yet.";
  if ((doc.environments ?? []).length < 2) return "There is only one environment. Run the benchmark again with a second --env, or compare this result with another result of the same job.";
  return (doc.comparisons ?? []).length > 0 ? "The result has comparisons, but none of the primary metric, so it has no verdict." : "The document has runs but no comparison.";
}

function Conclusion({ doc, c, also }: { doc: ResultExperiment; c: ResultComparison; also: ResultComparison[] }) {
  const kind = kindOf(c);
  const headline = headlineOf(c, caseIds(doc).length);
  const { said, next } = doubtsOf(c, doc.guards ?? [], headline);
  const interval = c.confidence > 0 ? `${formatValue(c.confidence, "ratio")} interval` : "interval";
  const range = kind === "invalid" ? "refused" : c.cost_ci_low !== null && c.cost_ci_high !== null ? `${formatTimes(c.cost_ci_low)} to ${formatTimes(c.cost_ci_high)}` : `missing: ${noRatio(c)}`;
  return (
    <section className={`verdict conclusion conclusion-${lookOf(kind).tone}`} aria-label={`Verdict on ${armsText(c)}${c.case === "default" ? "" : `, ${c.case}`}: ${lookOf(kind).word}`} data-verdict={kind}>
      <div>
        <VerdictChip kind={kind} material={c.material} />
        <h2>{headline}</h2>
        <p className="small dim">{[lookOf(kind).means, ...(c.details ?? [])].map(sentence).join(" ")}</p>
        {also.length > 0 && (
          <p className="also" data-also={also.length}>
            Refused for the same reason: {also.map((o) => o.case).join(", ")}.
          </p>
        )}
        <ul className="inline-facts">
          <li title={`${c.cost_ci_low} to ${c.cost_ci_high}`}>
            {interval} <b>{range}</b>
          </li>
          <li>
            {replicates(c)} <b>{c.n_pairs}</b>
          </li>
          {kind !== "stand-in" && (
            <li>
              grade <b>{c.grade || "none"}</b>, {gradeMeans(c.grade)}
            </li>
          )}
          <li title={c.mde === null ? undefined : `${c.mde}`}>
            smallest effect {replicates(c) === "pairs" ? "these pairs" : "these runs"} would find <b>{c.mde === null ? "missing" : formatValue(c.mde, "ratio")}</b>
          </li>
          {c.margin > 0 && (
            <li>
              margin <b>±{formatValue(c.margin, "ratio")}</b>
            </li>
          )}
          {c.noise_floor !== null && (
            <li title={`${c.noise_floor}`}>
              noise floor of this host <b>{formatValue(c.noise_floor, "ratio")}</b>
            </li>
          )}
        </ul>
        {c.cause && (
          <p className="next">
            <strong>Why. </strong>
            <Sentence text={c.cause} />
          </p>
        )}
        {next.length > 0 && (
          <p className="next">
            <strong>What would help. </strong>
            <Sentence text={next.map(sentence).join(" ")} />
          </p>
        )}
        <Doubts said={said} />
      </div>
    </section>
  );
}

/** A few are shown, many are folded. */
function Doubts({ said }: { said: string[] }) {
  if (said.length === 0) return null;
  const list = (
    <ul className="doubts">
      {said.map((s) => (
        <li key={s}>
          <Sentence text={s} />
        </li>
      ))}
    </ul>
  );
  if (said.length === 1) return list;
  return (
    <details>
      <summary>{said.length} doubts</summary>
      {list}
    </details>
  );
}
