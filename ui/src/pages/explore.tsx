// Any query, for what no other page shows.
import { useEffect, useState } from "react";
import { labelValues, queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { keyOf, labelText, useQuery } from "../charts/data";
import { Panel } from "../charts/panel";
import { formatValue } from "../format/number";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { PlaceLink } from "../frame/link";
import { own, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { move, usePlace } from "../state/use-place";

const examples: [string, string][] = [
  ["The ten busiest pairs of process and system call", "topk(10, sum by (process, syscall) (rate(tee_syscalls_total[1m])))"],
  ["Page faults by cause", "sum by (cause) (rate(tee_page_faults_total[1m]))"],
  ["Share of context switches that were voluntary", 'sum(rate(tee_context_switches_total{kind="voluntary"}[1m])) / sum(rate(tee_context_switches_total[1m]))'],
  ["How much of the events each source counts", "teescope_source_coverage_ratio"],
];

export default function Explore() {
  const place = usePlace();
  const { window: w } = useMachine();
  const [text, setText] = useState(place.expr);
  useEffect(() => setText(place.expr), [place.expr]);
  const data = useQuery(place.expr, null, 10, w, true);
  const now = useResource(place.expr === "" ? null : `${place.expr} ${w.to}`, (s) => queryAt(place.expr, w.to, s));
  const names = useResource(w.instance === "" ? null : `names ${w.instance} ${Math.floor(w.to / 60)}`, (s) => labelValues("__name__", select("", own(w)), w, s));
  return (
    <>
      <div className="section-head">
        <h2>Explore</h2>
        <p>Any PromQL query over what the monitor keeps.</p>
      </div>
      <form
        className="card"
        onSubmit={(e) => {
          e.preventDefault();
          move({ expr: text.trim() });
        }}
      >
        <label htmlFor="query" className="hidden">
          Query
        </label>
        <textarea
          id="query"
          className="query"
          spellCheck={false}
          value={text}
          placeholder="sum by (process) (rate(tee_syscalls_total[1m]))"
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey) {
              e.preventDefault();
              move({ expr: text.trim() });
            }
          }}
        />
        <div className="row">
          <button type="submit" className="button">
            Run
          </button>
          <span className="dim small">Enter runs it, Shift and Enter make a new line.</span>
          <label className="small dim">
            Metric{" "}
            <select value="" disabled={!names.data} onChange={(e) => setText((t) => (t === "" ? e.target.value : `${t} ${e.target.value}`))}>
              <option value="">{names.data ? `insert one of ${names.data.length}` : "asking"}</option>
              {(names.data ?? []).map((n) => (
                <option key={n}>{n}</option>
              ))}
            </select>
          </label>
        </div>
      </form>
      {place.expr === "" ? (
        <section className="card" aria-labelledby="examples">
          <h2 id="examples">To begin with</h2>
          <ul>
            {examples.map(([what, expr]) => (
              <li key={expr}>
                {what}:{" "}
                <PlaceLink to={goTo(place, "explore", "", expr)}>
                  <code>{expr}</code>
                </PlaceLink>
              </li>
            ))}
          </ul>
        </section>
      ) : (
        <div className="card-list" key={keyOf({ ...w, from: 0, to: 0 })}>
          <Panel title="Over the time range" unit="" metrics={[]} data={data} height={260} remarksOpen note={(data.data?.folded ?? 0) > 0 && <p className="note">{data.data?.folded} more series, with smaller averages, are not drawn.</p>} />
          <section className="card" aria-labelledby="values">
            <h2 id="values">At the end of the range</h2>
            {now.error && !data.error && <Problem message={now.error} retry={now.retry} />}
            <Remarks metrics={[]} warnings={now.data?.warnings ?? []} />
            {now.data?.rows.length === 0 && <p className="dim">No value at that time.</p>}
            {now.data && now.data.rows.length > 0 && (
              <div className="scroll" tabIndex={0} role="group" aria-label="Values">
                <table className="data">
                  <thead>
                    <tr>
                      <th scope="col">Series</th>
                      <th scope="col" className="num">
                        Value
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {now.data.rows.slice(0, 200).map((r, i) => (
                      <tr key={i}>
                        <th scope="row" className="mono">
                          {labelText(r.metric)}
                        </th>
                        <td className="num" title={formatValue(Number(r.value[1]), "")} data-value={r.value[1]}>
                          {r.value[1]}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
                {now.data.rows.length > 200 && <p className="note">The first 200 of {now.data.rows.length}.</p>}
              </div>
            )}
          </section>
        </div>
      )}
    </>
  );
}
