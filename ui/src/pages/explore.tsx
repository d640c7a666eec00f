// Any PromQL query, and changes between two windows.
import { lazy, useEffect, useRef, useState, type RefObject } from "react";
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { keyOf, useQuery } from "../charts/data";
import { Panel, useSeen } from "../charts/panel";
import { BoxPlots } from "../explore/boxes";
import { Changes } from "../explore/changes";
import { earlierQueries, keepQuery } from "../explore/history";
import { MetricBrowser } from "../explore/metrics";
import { QueryField } from "../explore/query-field";
import { Values } from "../explore/values";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { useMachine } from "../state/machine";
import { tabOf, Tabs } from "../frame/tabs";
import { goTo } from "../state/place";
import { move, usePlace } from "../state/use-place";

const examples: [string, string][] = [
  ["The ten busiest pairs of process and system call", "topk(10, sum by (process, syscall) (rate(tee_syscalls_total[1m])))"],
  ["Page faults by cause", "sum by (cause) (rate(tee_page_faults_total[1m]))"],
  ["Share of voluntary context switches", 'sum(rate(tee_context_switches_total{kind="voluntary"}[1m])) / sum(rate(tee_context_switches_total[1m]))'],
  ["Share of its events that each source counts", "teescope_source_coverage_ratio"],
];

const tabs = { graph: "Graph and table", distribution: "Distribution", changes: "What changed", dashboards: "Dashboards" };

const Dashboards = lazy(() => import("../dashboards/page"));

export default function Explore() {
  const place = usePlace();
  const tab = tabOf(tabs, place);
  return (
    <>
      <div className="section-head">
        <h2>Explore</h2>
        <p>Run any PromQL query on the stored series, list what changed, or open your dashboards.</p>
      </div>
      <Tabs label="View" tabs={tabs} current={tab} also={{ subject: "" }} />
      {tab === "changes" && <Changes />}
      {tab === "dashboards" && <Dashboards />}
      {(tab === "graph" || tab === "distribution") && <Queries distribution={tab === "distribution"} />}
    </>
  );
}

/** Queries, and the answers of those that were run. */
function Queries({ distribution }: { distribution: boolean }) {
  const place = usePlace();
  const { window: w } = useMachine();
  const asked = [place.expr, ...place.beside];
  const key = JSON.stringify(asked);
  const [texts, setTexts] = useState(asked);
  useEffect(() => setTexts(JSON.parse(key) as string[]), [key]);
  // The field that last had the cursor gets the inserted text.
  const [at, setAt] = useState(0);
  const run = (list: string[]) => {
    const [expr = "", ...beside] = list.map((t) => t.trim()).filter((t, i) => i === 0 || t !== "");
    for (const t of [...beside, expr]) keepQuery(t);
    move({ expr, beside });
  };
  const change = (i: number, text: string) => setTexts((all) => all.map((t, k) => (k === i ? text : t)));
  const runOne = (i: number, text: string) => run(texts.map((t, k) => (k === i ? text : t)));
  const inserts = useRef<Record<number, RefObject<((text: string) => void) | null>>>({});
  const insertOf = (i: number) => (inserts.current[i] ??= { current: null });
  const shown = asked.filter((e) => e !== "");
  return (
    <>
      <form
        className="card"
        onSubmit={(e) => {
          e.preventDefault();
          run(texts);
        }}
      >
        {texts.map((text, i) => (
          <div key={i} className="query-row" onFocus={() => setAt(i)}>
            <QueryField label={i === 0 ? "Query" : `Query ${i + 1}`} hint="sum by (process) (rate(tee_syscalls_total[1m]))" value={text} onChange={(t) => change(i, t)} onRun={(t) => runOne(i, t)} insert={insertOf(i)} />
            {i > 0 && (
              <button type="button" className="text-button" aria-label={`Remove query ${i + 1}`} onClick={() => run(texts.filter((_, k) => k !== i))}>
                Remove
              </button>
            )}
          </div>
        ))}
        <div className="row">
          <button type="submit" className="button">
            Run
          </button>
          <button type="button" className="text-button" onClick={() => setTexts((all) => [...all, ""])}>
            Add a query
          </button>
          <span className="dim small">Enter runs the query; Shift+Enter starts a new line.</span>
        </div>
        <Earlier />
        <MetricBrowser insert={(name) => inserts.current[Math.min(at, texts.length - 1)]?.current?.(name)} />
      </form>
      {shown.length === 0 && <Examples />}
      {shown.map((expr) => (distribution ? <BoxPlots key={expr} title={shown.length > 1 ? expr : "Distribution of the values"} unit="" metrics={[]} expr={expr} height={200} /> : <Answer key={`${expr} ${keyOf({ ...w, from: 0, to: 0 })}`} expr={expr} named={shown.length > 1} />))}
    </>
  );
}

/** Queries that were run before, on this browser. */
function Earlier() {
  const [list, setList] = useState<string[]>([]);
  return (
    <details onToggle={(e) => e.currentTarget.open && setList(earlierQueries())}>
      <summary>Earlier queries</summary>
      {list.length === 0 && <p className="dim">No query was run in this browser yet.</p>}
      <ul className="earlier-queries">
        {list.map((q) => (
          <li key={q}>
            <PlaceLink to={{ expr: q }}>
              <code>{q}</code>
            </PlaceLink>
          </li>
        ))}
      </ul>
    </details>
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
            <PlaceLink to={{ ...goTo(place, "explore", "", expr), tab: place.tab }}>
              <code>{expr}</code>
            </PlaceLink>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Answer({ expr, named }: { expr: string; named: boolean }) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const data = useQuery(expr, null, 10, w, seen);
  const now = useResource(seen ? `${expr} ${w.to}` : null, () => queryAt(expr, w.to));
  return (
    <div ref={ref} className="card-list">
      <Panel title={named ? expr : "Over the time range"} unit="" metrics={[]} data={data} height={260} remarksOpen note={(data.data?.folded ?? 0) > 0 && <p className="note">{data.data?.folded} more series with smaller averages are not drawn.</p>} />
      <section className="card" aria-label={`At the end of the range${named ? `: ${expr}` : ""}`}>
        <h2>At the end of the range</h2>
        {now.error && !data.error && <Problem message={now.error} retry={now.retry} />}
        <Remarks metrics={[]} warnings={now.data?.warnings ?? []} />
        {now.data?.rows.length === 0 && <p className="dim">No value at that time.</p>}
        {now.data && now.data.rows.length > 0 && <Values data={now} unit="" exact />}
      </section>
    </div>
  );
}
