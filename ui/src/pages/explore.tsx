// Any PromQL query, and changes between two windows.
import { useEffect, useState } from "react";
import { labelValues, queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { keyOf, useQuery } from "../charts/data";
import { Panel } from "../charts/panel";
import { BoxPlots } from "../explore/boxes";
import { Changes } from "../explore/changes";
import { QueryField } from "../explore/query-field";
import { Values } from "../explore/values";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { own, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { goTo, views, type View } from "../state/place";
import { move, usePlace } from "../state/use-place";

const examples: [string, string][] = [
  ["The ten busiest pairs of process and system call", "topk(10, sum by (process, syscall) (rate(tee_syscalls_total[1m])))"],
  ["Page faults by cause", "sum by (cause) (rate(tee_page_faults_total[1m]))"],
  ["Share of voluntary context switches", 'sum(rate(tee_context_switches_total{kind="voluntary"}[1m])) / sum(rate(tee_context_switches_total[1m]))'],
  ["Share of events that each source counts", "teescope_source_coverage_ratio"],
];

const labels: Record<View, string> = { graph: "Graph and table", distribution: "Distribution", changes: "What changed" };

export default function Explore() {
  const place = usePlace();
  const { window: w } = useMachine();
  const [text, setText] = useState(place.expr);
  useEffect(() => setText(place.expr), [place.expr]);
  const run = (expr: string) => move({ expr: expr.trim(), view: place.view === "changes" ? "graph" : place.view });
  return (
    <>
      <div className="section-head">
        <h2>Explore</h2>
        <p>Run any PromQL query on the stored series, or list what changed.</p>
      </div>
      <form
        className="card"
        onSubmit={(e) => {
          e.preventDefault();
          run(text);
        }}
      >
        <QueryField label="Query" hint="sum by (process) (rate(tee_syscalls_total[1m]))" value={text} onChange={setText} onRun={run} />
        <div className="row">
          <button type="submit" className="button">
            Run
          </button>
          <span className="dim small">Enter runs the query; Shift+Enter starts a new line.</span>
          <MetricPicker insert={(name) => setText((t) => (t === "" ? name : `${t} ${name}`))} />
        </div>
      </form>
      <nav className="tabs ranges" aria-label="View">
        {views.map((v) => (
          <PlaceLink key={v} to={{ view: v }} current={place.view === v}>
            {labels[v]}
          </PlaceLink>
        ))}
      </nav>
      {place.view === "changes" ? (
        <Changes />
      ) : place.expr === "" ? (
        <Examples />
      ) : place.view === "distribution" ? (
        <BoxPlots key={place.expr} title="Distribution of the values" unit="" metrics={[]} expr={place.expr} height={200} />
      ) : (
        <Answer key={keyOf({ ...w, from: 0, to: 0 })} expr={place.expr} />
      )}
    </>
  );
}

function MetricPicker({ insert }: { insert: (name: string) => void }) {
  const { window: w } = useMachine();
  const names = useResource(w.instance === "" ? null : `names ${w.instance} ${Math.floor(w.to / 60)}`, (s) => labelValues("__name__", select("", own(w)), w, s));
  return (
    <label className="small dim">
      Metric{" "}
      <select value="" disabled={!names.data} onChange={(e) => insert(e.target.value)}>
        <option value="">{names.data ? `insert one of ${names.data.length}` : "loading"}</option>
        {(names.data ?? []).map((n) => (
          <option key={n}>{n}</option>
        ))}
      </select>
    </label>
  );
}

function Examples() {
  const place = usePlace();
  return (
    <section className="card" aria-labelledby="examples">
      <h2 id="examples">Examples</h2>
      <ul>
        {examples.map(([what, expr]) => (
          <li key={expr}>
            {what}:{" "}
            <PlaceLink to={{ ...goTo(place, "explore", "", expr), view: place.view }}>
              <code>{expr}</code>
            </PlaceLink>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Answer({ expr }: { expr: string }) {
  const { window: w } = useMachine();
  const data = useQuery(expr, null, 10, w, true);
  const now = useResource(`${expr} ${w.to}`, (s) => queryAt(expr, w.to, s));
  return (
    <div className="card-list">
      <Panel title="Over the time range" unit="" metrics={[]} data={data} height={260} remarksOpen note={(data.data?.folded ?? 0) > 0 && <p className="note">{data.data?.folded} more series with smaller averages are not drawn.</p>} />
      <section className="card" aria-labelledby="values">
        <h2 id="values">At the end of the range</h2>
        {now.error && !data.error && <Problem message={now.error} retry={now.retry} />}
        <Remarks metrics={[]} warnings={now.data?.warnings ?? []} />
        {now.data?.rows.length === 0 && <p className="dim">No value at that time.</p>}
        {now.data && now.data.rows.length > 0 && <Values data={now} unit="" exact />}
      </section>
    </div>
  );
}
