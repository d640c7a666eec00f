// The list of results: the verdict first, then the subject. Filters and ticks are part of the
// address.
import { useEffect, useState } from "react";
import type { ResultSummary } from "../api/types";
import { formatSince } from "../format/time";
import { IconWarning } from "../frame/icons";
import { PlaceLink } from "../frame/link";
import { home, type Filter } from "../state/place";
import { here, move, usePlace } from "../state/use-place";
import { useMachine } from "../state/machine";
import { gradeMeans, headlineOf, kindOf, lookOf, shellLine, type Kind } from "../words/benchmark";
import { count } from "../words/verdict";
import { Command } from "./command";
import { choicesOf, kindsOf, narrow, tellingOf } from "./document";
import { VerdictChip } from "./marks";
import { MatrixTable } from "./matrix-table";

export function ResultList({ results, problems }: { results: ResultSummary[]; problems: string[] }) {
  const { filter, beside } = usePlace();
  const shown = narrow(results, filter);
  const ticked = beside.filter((id) => results.some((r) => r.id === id));
  return (
    <>
      <div className="section-head">
        <h2>Benchmarks</h2>
        <p>{results.length === shown.length ? count(results.length, "result") : `${shown.length} of ${count(results.length, "result")}`}</p>
      </div>
      {results.length === 0 ? <Empty /> : <MatrixTable results={shown} />}
      {results.length > 0 && <Filters results={results} />}
      <Problems problems={problems} />
      {ticked.length > 0 && (
        <div className="card tick-bar row" role="status">
          {ticked.length === 1 ? (
            <span>1 result selected. Select another result of the same job to show both side by side.</span>
          ) : (
            <PlaceLink to={{ subject: ticked[0]!, beside: ticked.slice(1) }} className="button">
              Put {ticked.length} results side by side
            </PlaceLink>
          )}
          <button type="button" className="text-button" onClick={() => move({ beside: [] }, "replace")}>
            Untick
          </button>
        </div>
      )}
      {results.length > 0 && shown.length === 0 && (
        <p className="empty">
          No result passes these filters.{" "}
          <button type="button" className="text-button" onClick={() => move({ filter: home.filter })}>
            Show all {results.length}
          </button>
        </p>
      )}
      <ul className="results" aria-label="Results">
        {shown.map((r) => (
          <ResultLine key={r.id} result={r} ticked={ticked.includes(r.id)} />
        ))}
      </ul>
    </>
  );
}

function Empty() {
  const data = useMachine().platform.data?.data;
  return (
    <section className="card">
      <h2>No result yet</h2>
      <p>A benchmark that runs on this machine, with this monitor's data folder, appears here when it ends. For example, this measures the cost of starting a process in gVisor:</p>
      <Command text={shellLine(["teescope", "bench", "run", "startup", "--env", "native", "--env", "runsc", ...(data ? ["--data", data] : [])])} />
      <p className="dim">
        <code>teescope bench list</code> shows what else can be measured, and where. To show a result from another machine, copy its file into <code>{data ? `${data}/results` : "results in the monitor's data folder"}</code>.
      </p>
    </section>
  );
}

const labels: Omit<Record<keyof Filter, string>, "text"> = { workload: "Workload", environment: "Environment", verdict: "Verdict", grade: "Grade" };

function Filters({ results }: { results: ResultSummary[] }) {
  const { filter } = usePlace();
  const [text, setText] = useState(filter.text);
  useEffect(() => setText(filter.text), [filter.text]);
  useEffect(() => {
    if (text === here().filter.text) return;
    const timer = setTimeout(() => move({ filter: { ...here().filter, text } }, "replace"), 250);
    return () => clearTimeout(timer);
  }, [text]);
  const choices = choicesOf(results);
  const words = (f: string, v: string) => (f === "verdict" ? lookOf(v as Kind).word : v);
  return (
    <form className="filters" role="search" aria-label="Filter results" onSubmit={(e) => e.preventDefault()}>
      <input type="search" className="text-input" aria-label="Text in results" placeholder="Text" value={text} onChange={(e) => setText(e.target.value)} />
      {(Object.keys(labels) as (keyof typeof labels)[]).map((f) => (
        <select key={f} aria-label={labels[f]} value={filter[f]} onChange={(e) => move({ filter: { ...here().filter, [f]: e.target.value } })}>
          <option value="">{`Any ${labels[f].toLowerCase()}`}</option>
          {/* What the address asks for is shown, even where no result has it. */}
          {[...new Set([...choices[f], filter[f]])].filter(Boolean).map((v) => (
            <option key={v} value={v}>
              {words(f, v) ?? v}
            </option>
          ))}
        </select>
      ))}
      {Object.values(filter).some(Boolean) && (
        <button type="button" className="text-button" onClick={() => move({ filter: home.filter })}>
          Clear
        </button>
      )}
    </form>
  );
}

function Problems({ problems }: { problems: string[] }) {
  if (problems.length === 0) return null;
  return (
    <details className="card" open={problems.length <= 3}>
      <summary>
        <IconWarning /> {problems.length === 1 ? "1 file could not be read" : `${problems.length} files could not be read`}
      </summary>
      <ul className="unreadable">
        {problems.map((p) => (
          <li key={p} className="mono">
            {p}
          </li>
        ))}
      </ul>
    </details>
  );
}

function ResultLine({ result: r, ticked }: { result: ResultSummary; ticked: boolean }) {
  const comparisons = r.comparisons ?? [];
  const c = tellingOf(comparisons);
  const others = comparisons.filter((o) => o !== c);
  const headline = c ? headlineOf(c, (r.cases ?? []).length) : `${r.workload} in ${(r.environments ?? []).join(", ")}: measured, but there is nothing to compare it with`;
  const name = r.name === r.workload ? r.workload : `${r.name} (${r.workload})`;
  const tick = () => {
    const now = here().beside;
    move({ beside: ticked ? now.filter((id) => id !== r.id) : [...now, r.id] }, "replace");
  };
  return (
    <li className="card result" data-result={r.id} data-verdict={c ? kindOf(c) : "none"}>
      <label className="tick" title="Select results of the same job to show them side by side">
        <input type="checkbox" checked={ticked} onChange={tick} aria-label={`Tick ${name} of ${formatSince(r.started)} to compare it`} />
      </label>
      <div className="result-body">
        <h3 title={headline}>
          <PlaceLink to={{ subject: r.id, beside: [] }}>{headline}</PlaceLink>
        </h3>
        <div className="row">
          {c && <VerdictChip kind={kindOf(c)} material={c.material} />}
          {!c && <span className="chip">no verdict</span>}
          {others.length > 0 && (
            <span className="small dim">
              and {count(others.length, "more verdict")}: {kindsOf({ comparisons: others }).map((k) => `${others.filter((o) => kindOf(o) === k).length} ${lookOf(k).word}`).join(", ")}
            </span>
          )}
          {c?.open && <span className="small">{c.open}</span>}
        </div>
        <ul className="inline-facts">
          <li>
            <b>{name}</b>
            {r.calibration ? ", A/A" : ""}
          </li>
          <li>{(r.environments ?? []).join(", ")}</li>
          {!(c && kindOf(c) === "stand-in") && <li title={gradeMeans(r.grade)}>grade {r.grade || "none"}</li>}
          <li>
            {count(r.pairs, "pair")}, {count(r.runs, "run")}
          </li>
          <li title={r.started}>{formatSince(r.started)}</li>
          <li title={r.origin.line}>{r.origin.word}</li>
          <li className={r.commit ? "mono" : undefined} title={r.commit}>
            {r.commit ? r.commit.slice(0, 12) : "no commit named"}
          </li>
        </ul>
      </div>
    </li>
  );
}
