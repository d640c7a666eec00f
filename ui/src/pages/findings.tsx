// What was found: open, closed, and what every rule says.
import { useEffect, useRef } from "react";
import type { AnalysisRecord, AnalysisRuleStat } from "../api/types";
import { QueryChart } from "../charts/charts";
import { formatValue, rawValue, unitOf } from "../format/number";
import { formatLength, formatSince } from "../format/time";
import { IconGood, IconUnknown, IconWarning } from "../frame/icons";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { count, openFindings } from "../words/verdict";

export default function FindingsPage() {
  const { findings } = useMachine();
  const f = findings.data;
  const open = openFindings(f);
  const closed = (f?.findings ?? []).filter((r) => r.state === "closed");
  const rules = f?.rules ?? [];
  const blind = rules.filter((r) => r.answer === "cannot tell").length;
  return (
    <>
      <div className="section-head">
        <h2>{f ? (open.length === 0 ? "Nothing is open" : `${count(open.length, "finding")} open`) : "Findings"}</h2>
        {f && <p>{`${count(rules.length, "check")}, ${blind === 0 ? "all with an answer" : `${blind} of them cannot tell`}; evaluated at ${formatSince(f.at)}`}</p>}
      </div>
      {findings.error && <Problem message={findings.error} retry={findings.retry} stale={f !== null} />}
      {open.map((r) => (
        <FindingDetail key={r.id} finding={r} />
      ))}
      <section className="card" aria-labelledby="closed">
        <div className="section-head">
          <h2 id="closed">Closed</h2>
        </div>
        {closed.length === 0 ? (
          <p className="dim">None since the monitor started.</p>
        ) : (
          closed.map((r) => (
            <details key={r.id}>
              <summary>
                {formatSince(r.since)}, for {r.until ? formatLength((Date.parse(r.until) - Date.parse(r.since)) / 1000) : "an unknown time"}: {r.title}
              </summary>
              <FindingDetail finding={r} />
            </details>
          ))
        )}
      </section>
      <section className="card" aria-labelledby="rules">
        <div className="section-head">
          <h2 id="rules">What is looked for</h2>
        </div>
        <div className="scroll" tabIndex={0} role="group" aria-label="Rules">
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Rule</th>
                <th scope="col">Says</th>
                <th scope="col">What it means</th>
                <th scope="col">Looks at</th>
              </tr>
            </thead>
            <tbody>
              {rules.map((r) => (
                <RuleRow key={r.name} rule={r} />
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  );
}

function FindingDetail({ finding: f }: { finding: AnalysisRecord }) {
  const place = usePlace();
  const ref = useRef<HTMLElement>(null);
  const chosen = place.subject === f.id;
  useEffect(() => {
    if (chosen) ref.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const first = f.evidence?.[0];
  return (
    <article className="card" ref={ref} aria-label={f.title} data-finding={f.rule} data-subject={f.subject}>
      <div className="row">
        <Severity level={f.severity} />
        <span className="dim small">
          since {formatSince(f.since)}
          {f.until ? ` until ${formatSince(f.until)}` : ""} · {f.subject}
          {f.share ? ` · ${formatValue(f.share[0], "ratio")} to ${formatValue(f.share[1], "ratio")} of CPU time` : ""}
        </span>
      </div>
      <h2>{f.title}</h2>
      {f.remedy && (
        <p>
          <strong>What to do. </strong>
          <Sentence text={sentence(f.remedy)} />
        </p>
      )}
      <div className="scroll" tabIndex={0} role="group" aria-label="Evidence">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Evidence</th>
              <th scope="col" className="num">
                Value
              </th>
              <th scope="col">Query</th>
            </tr>
          </thead>
          <tbody>
            {(f.evidence ?? []).map((e, i) => (
              <tr key={i}>
                <th scope="row">
                  <Sentence text={e.text} />
                </th>
                <td className="num" title={rawValue(e.value, unitOf(e.unit))} data-value={e.value}>
                  {formatValue(e.value, unitOf(e.unit))}
                </td>
                <td>
                  {e.expr && (
                    <PlaceLink to={goTo(place, "explore", "", e.expr)}>
                      <code>{e.expr}</code>
                    </PlaceLink>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {first?.expr && f.state === "open" && <QueryChart title={first.text} unit={unitOf(first.unit)} by={null} metrics={[]} expr={first.expr} />}
      {f.reference && (
        <p className="note">
          More: <Sentence text={f.reference} />
        </p>
      )}
    </article>
  );
}

const answers = {
  fires: { icon: IconWarning, look: "chip-bad" },
  silent: { icon: IconGood, look: "chip-good" },
  "cannot tell": { icon: IconUnknown, look: "chip-warn" },
};

function RuleRow({ rule: r }: { rule: AnalysisRuleStat }) {
  const { icon: Icon, look } = answers[r.answer];
  return (
    <tr data-rule={r.name} data-answer={r.answer}>
      <th scope="row">{r.title}</th>
      <td>
        <span className={`chip ${look}`}>
          <Icon /> {r.answer}
        </span>
        {r.reason && <div className="small dim">{sentence(r.reason)}</div>}
      </td>
      <td>
        <Sentence text={r.doc} />
      </td>
      <td className="small">
        the last {formatLength(r.windows[0])} and {formatLength(r.windows[1])}
      </td>
    </tr>
  );
}
