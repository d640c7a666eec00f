// All processes by name with their requests to the kernel, and one in detail.
import { useState } from "react";
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { TopChart } from "../charts/charts";
import { keyOf, watched } from "../charts/data";
import { gridCSV, gridOfPairs } from "../charts/heat";
import { HeatMap } from "../charts/heat-map";
import { PanelBox, useSeen } from "../charts/panel";
import { formatValue, rawValue, type Unit } from "../format/number";
import { formatLength } from "../format/time";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { counters, increaseBy, processFilter, type Counter, type Match } from "../query/promql";
import { rank } from "../query/series";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { emptyReason } from "../words/empty";
import { Sentence } from "../words/term";
import { count } from "../words/verdict";

const columns = [
  { key: "cpu", title: "CPU", counter: counters.cpu, unit: "ratio" },
  { key: "syscalls", title: "System calls", counter: counters.syscalls, unit: "1/s" },
  { key: "switches", title: "Context switches", counter: counters.switches, unit: "1/s" },
  { key: "faults", title: "Page faults", counter: counters.faults, unit: "1/s" },
] as const satisfies readonly { key: string; title: string; counter: Counter; unit: Unit }[];
type Key = (typeof columns)[number]["key"];

interface Row {
  name: string;
  rates: Partial<Record<Key, number>>;
}

export default function Processes() {
  const { subject } = usePlace();
  if (subject !== "") return <Detail name={subject} />;
  return (
    <>
      <Table />
      <CallMap />
    </>
  );
}

function Table() {
  const place = usePlace();
  const { window: w, sources } = useMachine();
  const [sort, setSort] = useState<Key>("cpu");
  const [all, setAll] = useState(false);
  const filter = processFilter(place.process);
  const rows = useResource<{ list: Row[]; warnings: string[] }>(w.instance === "" ? null : `${place.process} ${keyOf(w)}`, async (signal) => {
    const [seconds, ...answers] = await Promise.all([watched(w), ...columns.map((c) => queryAt(increaseBy(c.counter, "process", filter, w), w.to, signal))]);
    const byName = new Map<string, Row>();
    const warnings = new Set<string>();
    for (const [i, c] of columns.entries()) {
      const answer = answers[i]!;
      for (const w of answer.warnings) warnings.add(w);
      for (const { name, total } of rank(answer.rows, "process")) {
        const row = byName.get(name) ?? { name, rates: {} };
        row.rates[c.key] = total / seconds;
        byName.set(name, row);
      }
    }
    return { list: [...byName.values()], warnings: [...warnings] };
  });
  const sorted = (rows.data?.list ?? []).toSorted((a, b) => (b.rates[sort] ?? 0) - (a.rates[sort] ?? 0) || a.name.localeCompare(b.name));
  const largest = sorted[0]?.rates[sort] ?? 0;
  const shown = all ? sorted : sorted.slice(0, 20);
  return (
    <>
      <div className="section-head">
        <h2>Processes</h2>
        <p>
          {rows.data ? `${sorted.length} names were active in these ${formatLength(w.to - w.from)}. ` : ""}Averages over the time range; processes of one name are added up.
        </p>
      </div>
      {rows.error && <Problem message={rows.error} retry={rows.retry} stale={rows.data !== null} />}
      <section className="card" aria-label="Processes">
        <Remarks metrics={columns.map((c) => c.counter.metric)} warnings={rows.data?.warnings ?? []} />
        {rows.data && sorted.length === 0 ? (
          <p className="empty">{emptyReason({ sources: sources.data, metrics: columns.map((c) => c.counter.metric), process: place.process, window: w })}</p>
        ) : !rows.data ? (
          <p className="empty">Loading the last {formatLength(w.to - w.from)}.</p>
        ) : (
          <div className={`scroll ${rows.loading ? "dimmed panel-body" : "panel-body"}`} tabIndex={0} role="group" aria-label="Table of processes">
            <table className="data" id="processes">
              <thead>
                <tr>
                  <th scope="col">Process</th>
                  {columns.map((c) => (
                    <th key={c.key} scope="col" className="num" aria-sort={sort === c.key ? "descending" : undefined}>
                      <button type="button" className="sort" onClick={() => setSort(c.key)}>
                        {c.title}
                        {c.unit === "ratio" ? ", of one core" : " per second"}
                        {sort === c.key ? " ↓" : ""}
                      </button>
                    </th>
                  ))}
                  <th scope="col" className="wide-only">
                    <span className="hidden">Share of the largest</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {shown.map((r) => (
                  <tr key={r.name} className="link" data-name={r.name}>
                    <th scope="row">
                      <PlaceLink to={goTo(place, "processes", r.name)}>{r.name}</PlaceLink>
                    </th>
                    {columns.map((c) => (
                      <td key={c.key} className="num" title={rawValue(r.rates[c.key], c.unit)} data-column={c.key} data-value={r.rates[c.key] ?? ""}>
                        {formatValue(r.rates[c.key], c.unit)}
                      </td>
                    ))}
                    <td className="wide-only" aria-hidden="true">
                      <Bar share={largest > 0 ? (r.rates[sort] ?? 0) / largest : 0} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {sorted.length > shown.length && (
              <button type="button" className="text-button" onClick={() => setAll(true)}>
                Show all {sorted.length}
              </button>
            )}
          </div>
        )}
      </section>
    </>
  );
}

/** Who makes which system calls: the largest of both as a heat map. */
function CallMap() {
  const place = usePlace();
  const { window: whole } = useMachine();
  const [ref, seen] = useSeen();
  // All calls of all processes over a day exceed one query of the monitor.
  const w = { ...whole, from: Math.max(whole.from, whole.to - 3600) };
  const expr = `topk(2000, ${increaseBy({ metric: "tee_syscalls_total" }, "process, syscall", processFilter(place.process), w)})`;
  const data = useResource(seen ? `${expr} ${keyOf(w)}` : null, async (signal) => {
    const [s, answer] = await Promise.all([watched(w), queryAt(expr, w.to, signal)]);
    const pairs = answer.rows.map((r) => ({ row: r.metric["process"] ?? "", column: r.metric["syscall"] ?? "", value: Number(r.value[1]) / s })).filter((p) => p.value > 0);
    return { grid: gridOfPairs(pairs, 20, 14), expr, warnings: answer.warnings };
  });
  const g = data.data?.grid;
  return (
    <div ref={ref} className="card-list">
      <PanelBox
        title="System calls per second, by process and call"
        metrics={["tee_syscalls_total"]}
        filtered
        data={data}
        drawn={g !== undefined && g.rows.length > 0}
        csv={() => (g ? gridCSV("process", g) : "")}
      >
        {g && (
          <>
            <HeatMap caption={w.from > whole.from ? "Averages over the last hour of the time range" : "Averages over the time range"} grid={g} unit="1/s" corner="Process" rowName={(name) => <PlaceLink to={goTo(place, "processes", name)}>{name}</PlaceLink>} />
            {(g.rowsLeft > 0 || g.columnsLeft > 0) && <p className="note">{`${count(g.rowsLeft, "process name")} and ${count(g.columnsLeft, "call")} with fewer calls are not shown.`}</p>}
            {w.from > whole.from && <p className="note">Averages over the last hour of the time range.</p>}
          </>
        )}
      </PanelBox>
    </div>
  );
}

function Bar({ share }: { share: number }) {
  return (
    <span className="bar-track">
      <span className="bar" style={{ width: `${Math.max(share > 0 ? 1 : 0, share * 100)}%` }} />
    </span>
  );
}

function Detail({ name }: { name: string }) {
  const place = usePlace();
  const { window: w } = useMachine();
  const [all, setAll] = useState(false);
  const only: Match[] = [{ label: "process", op: "=", value: name }];
  const calls = useResource(w.instance === "" ? null : `${name} ${keyOf(w)}`, async (signal) => {
    const [s, answer] = await Promise.all([watched(w), queryAt(increaseBy({ metric: "tee_syscalls_total" }, "syscall", only, w), w.to, signal)]);
    const ranking = rank(answer.rows, "syscall");
    const sum = ranking.reduce((a, r) => a + r.total, 0);
    return { rows: ranking.map((r) => ({ name: r.name, rate: r.total / s, share: r.total / sum })), rate: sum / s, warnings: answer.warnings };
  });
  return (
    <>
      <div className="section-head">
        <h2>{name}</h2>
        <PlaceLink to={goTo(place, "processes")}>All processes</PlaceLink>
        <PlaceLink to={goTo(place, "explain", name)}>Explain its time</PlaceLink>
      </div>
      <div className="columns">
        <section className="card" aria-label="System calls by call">
          <h3>
            <Sentence text="System calls" />, average per second
          </h3>
          <Remarks metrics={["tee_syscalls_total"]} warnings={calls.data?.warnings ?? []} />
          {calls.error && <Problem message={calls.error} retry={calls.retry} stale={calls.data !== null} />}
          {calls.data && calls.data.rows.length === 0 && <p className="empty">{name} made no system call in these {formatLength(w.to - w.from)}, or calls are not counted.</p>}
          {calls.data && calls.data.rows.length > 0 && (
            <table className="data" id="calls">
              <thead>
                <tr>
                  <th scope="col">Call</th>
                  <th scope="col" className="num">
                    Rate
                  </th>
                  <th scope="col" className="num">
                    Share
                  </th>
                </tr>
              </thead>
              <tbody>
                <tr data-name={name}>
                  <th scope="row">all</th>
                  <td className="num" title={rawValue(calls.data.rate, "1/s")} data-value={calls.data.rate}>
                    {formatValue(calls.data.rate, "1/s")}
                  </td>
                  <td />
                </tr>
                {calls.data.rows.slice(0, all ? undefined : 20).map((r) => (
                  <tr key={r.name} data-call={r.name}>
                    <th scope="row" className="mono">
                      {r.name}
                    </th>
                    <td className="num" title={rawValue(r.rate, "1/s")} data-value={r.rate}>
                      {formatValue(r.rate, "1/s")}
                    </td>
                    <td className="num" title={rawValue(r.share, "ratio")}>
                      {formatValue(r.share, "ratio")}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {!all && (calls.data?.rows.length ?? 0) > 20 && (
            <button type="button" className="text-button" onClick={() => setAll(true)}>
              Show all {calls.data?.rows.length}
            </button>
          )}
        </section>
        <div className="grid">
          <TopChart title="System calls per second, by call" unit="1/s" counter={{ metric: "tee_syscalls_total" }} by="syscall" matches={only} filtered={false} />
          <TopChart title="CPU, percent of one core" unit="ratio" counter={counters.cpu} by="process" matches={only} filtered={false} />
          <TopChart title="Context switches per second" unit="1/s" counter={{ metric: "tee_context_switches_total" }} by="kind" matches={only} filtered={false} />
          <TopChart title="Page faults per second, by cause" unit="1/s" counter={{ metric: "tee_page_faults_total" }} by="cause" matches={only} k={6} filtered={false} />
          <TopChart title="Page faults per second, user and kernel space" unit="1/s" counter={{ metric: "tee_page_faults_total" }} by="space" matches={only} filtered={false} />
        </div>
      </div>
    </>
  );
}
