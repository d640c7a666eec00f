// All processes by name: current values and averages, as a table that refreshes.
import type { ReactNode } from "react";
import { queryAt, queryRange } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import { keyOf } from "../charts/data";
import { colourOf } from "../charts/palette";
import { SparkLine } from "../charts/spark";
import { formatValue, type Unit } from "../format/number";
import { PlaceLink } from "../frame/link";
import { LiveButton } from "../frame/live";
import { Problem } from "../frame/problem";
import { SortedTable, useSorted, type Column } from "../frame/sorted-table";
import { counters, increaseBy, own, processFilter, rateWindow, select, type Counter, type Match } from "../query/promql";
import { watched } from "../query/watched";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { steady, type Window } from "../state/window";
import { emptyReason, spanWords } from "../words/empty";
import { count } from "../words/verdict";

const rate = (metric: string, matches: Match[], w: Window) => `sum by (process) (rate(${select(metric, [...own(w), ...matches])}[${rateWindow(w)}]))`;

/** A column, and the query behind it. */
interface Asked extends Column<Row> {
  metric: string;
  /** The value of each process at the end of the window, or its events over the window. */
  query: (matches: Match[], w: Window) => string;
  /** The query counts events of the whole window. */
  counted: boolean;
}

interface Row {
  name: string;
  values: { [key: string]: number };
}

const column = (key: string, title: string, unit: Unit, hint: string, metric: string, counted: boolean, query: Asked["query"]): Asked => ({
  key,
  title,
  unit,
  hint,
  metric,
  counted,
  query,
  value: (r) => r.values[key],
  text: (r) => formatValue(r.values[key], unit),
  absent: "No event was counted",
});
const averaged = (key: string, title: string, unit: Unit, c: Counter, hint = "Average over the time range") => column(key, title, unit, hint, c.metric, true, (m, w) => increaseBy(c, "process", m, w));
const waits = "tee_sampled_wait_seconds_total";

const columns: Asked[] = [
  column("now", "CPU now", "ratio", "Share of one core at the end of the time range", counters.cpu.metric, false, (m, w) => rate(counters.cpu.metric, m, w)),
  averaged("cpu", "CPU, average", "ratio", counters.cpu, "Share of one core, average over the time range"),
  column("wait", "Waits for a CPU", "", "Average number of threads that could run but had no CPU, now", waits, false, (m, w) => rate(waits, [...m, { label: "state", op: "=", value: "cpu" }], w)),
  averaged("syscalls", "System calls per second", "1/s", counters.syscalls),
  averaged("switches", "Context switches per second", "1/s", counters.switches),
  averaged("faults", "Page faults per second", "1/s", counters.faults),
];

/** Values by process and column. */
type Values = Map<string, Row["values"]>;

/** The columns of values at the end of the window, or of averages over it. */
function useColumns(counted: boolean, process: string, w: Window): Resource<Values> {
  return useResource<Values>(w.instance === "" ? null : `${process} ${keyOf(w)}`, async () => {
    const asked = columns.filter((c) => c.counted === counted);
    const [seconds, ...answers] = await Promise.all([counted ? watched(w) : 1, ...asked.map((c) => queryAt(c.query(processFilter(process), w), w.to))]);
    const byName: Values = new Map();
    asked.forEach((c, i) => {
      for (const r of answers[i]!.rows) {
        const name = r.metric["process"] ?? "";
        const value = Number(r.value[1]) / seconds;
        if (name !== "" && value > 0) byName.set(name, { ...byName.get(name), [c.key]: value });
      }
    });
    return byName;
  });
}

const first = 20;

/** below is shown once the length of the table is known, so it does not jump. */
export function ProcessTable({ below }: { below: ReactNode }) {
  const place = usePlace();
  const { window: w, sources, findings } = useMachine();
  const now = useColumns(false, place.process, w);
  // Averages over the whole window cost most and change least.
  const average = useColumns(true, place.process, { ...w, ...steady(w) });
  const known = now.data !== null && average.data !== null;
  const names = new Set(known ? [...now.data!.keys(), ...average.data!.keys()] : []);
  const rows = [...names].map((name): Row => ({ name, values: { ...average.data?.get(name), ...now.data?.get(name) } }));
  const { by, sorted } = useSorted<Row>(columns, rows, (r) => r.name);
  const failed = now.error ? now : average;
  const trends = useTrends(processFilter(place.process), w);
  const metrics = [...new Set(columns.map((c) => c.metric))];
  return (
    <>
      <div className="section-head">
        <h2>Processes</h2>
        <p>{known ? `${count(sorted.length, "name")} active in ${spanWords(w)}; processes with the same name are added up.` : ""}</p>
        <LiveButton />
      </div>
      {failed.error && <Problem message={failed.error} retry={failed.retry} stale={failed.data !== null} />}
      <section className="card" aria-label="Processes">
        {known && sorted.length === 0 ? (
          <p className="empty">{findings.data?.summary.youth || emptyReason({ sources: sources.data, metrics, process: place.process, window: w })}</p>
        ) : (
          <SortedTable
            id="processes"
            label="Table of processes"
            corner="Process"
            columns={columns}
            by={by}
            sorted={known ? sorted : null}
            dimmed={now.loading}
            first={first}
            idOf={(r) => r.name}
            nameOf={(r) => r.name}
            link={(r) => <PlaceLink to={{ ...goTo(place, "processes", r.name), before: place.before }}>{r.name}</PlaceLink>}
            bars
            last={{ title: "CPU, trend", cell: (r) => trends?.has(r.name) && <SparkLine values={trends.get(r.name) ?? []} label={`CPU of ${r.name} over the window`} colour={`--series-${colourOf(r.name)}`} /> }}
          />
        )}
      </section>
      {(known || failed.error) && below}
    </>
  );
}

/** Points of a trend line: a cell is not wider. */
const points = 40;

/** The CPU of all names over the window. The query stays the same, so only new points are fetched. */
function useTrends(filter: Match[], w: Window): Map<string, (number | null)[]> | null {
  const step = Math.max(w.step, Math.ceil((w.to - w.from) / points / w.step) * w.step);
  const coarse = { ...w, step };
  // A line moves one step at a time.
  const to = Math.floor(w.to / step) * step;
  const grid = { ...coarse, from: to - Math.floor((w.to - w.from) / step) * step, to };
  const expr = `sum by (process) (rate(${select(counters.cpu.metric, [...own(w), ...filter])}[${rateWindow(coarse)}]))`;
  const { data } = useResource(w.instance === "" ? null : `${expr} ${keyOf(grid)}`, async () => {
    const { rows } = await queryRange(expr, grid);
    return new Map(rows.map((r) => [r.metric["process"] ?? "", r.values]));
  });
  return data;
}
