// Containers and other cgroups: their usage and their limits.
import { useState } from "react";
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { QueryChart } from "../charts/charts";
import { keyOf, watched } from "../charts/data";
import { formatValue, rawValue, type Unit } from "../format/number";
import { formatLength } from "../format/time";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { among, own, rateWindow, select, type Match } from "../query/promql";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { emptyReason } from "../words/empty";
import { containerName, type ContainerLabels } from "../words/container";
import { Sentence } from "../words/term";
import { count } from "../words/verdict";
import type { Window } from "../state/window";

type Key = "cpu" | "memory" | "limit" | "throttled" | "disk" | "network";

const columns: { key: Key; title: string; unit: Unit; query: (w: Window, m: Match[], length: string) => string; counted: boolean }[] = [
  { key: "cpu", title: "CPU, of one core", unit: "ratio", counted: true, query: (w, m, l) => `sum by (LABELS) (increase(${select("container_cpu_usage_seconds_total", [...own(w), ...m])}[${l}]))` },
  { key: "memory", title: "Working set", unit: "bytes", counted: false, query: (w, m) => `sum by (LABELS) (${select("container_memory_working_set_bytes", [...own(w), ...m])})` },
  { key: "limit", title: "Memory limit", unit: "bytes", counted: false, query: (w, m) => `sum by (LABELS) (${select("container_spec_memory_limit_bytes", [...own(w), ...m])})` },
  {
    key: "throttled",
    title: "Throttled",
    unit: "ratio",
    counted: false,
    query: (w, m, l) =>
      `sum by (LABELS) (increase(${select("container_cpu_cfs_throttled_periods_total", [...own(w), ...m])}[${l}])) / (sum by (LABELS) (increase(${select("container_cpu_cfs_periods_total", [...own(w), ...m])}[${l}])) > 0)`,
  },
  {
    key: "disk",
    title: "Disk per second",
    unit: "bytes/s",
    counted: true,
    query: (w, m, l) => `sum by (LABELS) (increase({__name__=~"container_fs_(reads|writes)_bytes_total",${inner(w, [...m, disks])}}[${l}]))`,
  },
  {
    key: "network",
    title: "Network per second",
    unit: "bytes/s",
    counted: true,
    query: (w, m, l) => `sum by (LABELS) (increase({__name__=~"container_network_(receive|transmit)_bytes_total",${inner(w, m)}}[${l}]))`,
  },
];

// Devices on top of disks would count the same bytes twice.
const disks: Match = { label: "device", op: "!~", value: "/dev/(loop|ram|dm-|md|zram).*" };

function inner(w: Window, m: Match[]): string {
  return select("", [...own(w), ...m]).slice(1, -1);
}

const labels = "id, name, namespace, pod, container";

interface Row {
  id: string;
  name: string;
  isContainer: boolean;
  values: Partial<Record<Key, number>>;
}

export default function Containers() {
  const place = usePlace();
  const { window: w, sources } = useMachine();
  const [sort, setSort] = useState<Key>("cpu");
  const [everything, setEverything] = useState(false);
  const [all, setAll] = useState(false);
  const rows = useResource<Row[]>(w.instance === "" ? null : keyOf(w), async (signal) => {
    const notRoot: Match[] = [{ label: "id", op: "!=", value: "/" }];
    const length = `${Math.round(w.to - w.from)}s`;
    const [seconds, ...answers] = await Promise.all([watched(w), ...columns.map((c) => queryAt(c.query(w, notRoot, length).replaceAll("LABELS", labels), w.to, signal))]);
    const byId = new Map<string, Row>();
    for (const [i, c] of columns.entries()) {
      for (const r of answers[i]!.rows) {
        const l = r.metric as ContainerLabels;
        const row = byId.get(l.id) ?? { id: l.id, name: containerName(l), isContainer: Boolean(l.name || l.container), values: {} };
        row.values[c.key] = Number(r.value[1]) / (c.counted ? seconds : 1);
        byId.set(l.id, row);
      }
    }
    return [...byId.values()];
  });
  const known = rows.data ?? [];
  const containers = known.filter((r) => r.isContainer);
  // A machine without containers shows the units of systemd.
  const wide = everything || containers.length === 0;
  const sorted = (wide ? known : containers).toSorted((a, b) => (b.values[sort] ?? -1) - (a.values[sort] ?? -1) || (a.id < b.id ? -1 : 1));
  const shown = all ? sorted : sorted.slice(0, 30);
  const chosen = known.find((r) => r.id === place.subject);
  const drawn = chosen ? [chosen] : sorted.slice(0, 6);
  return (
    <>
      <div className="section-head">
        <h2>{chosen ? chosen.name : "Containers"}</h2>
        {chosen ? (
          <PlaceLink to={goTo(place, "containers")}>All containers</PlaceLink>
        ) : (
          rows.data && known.length > 0 && <p>{containers.length === 0 ? `No container runs here; the table shows the ${known.length} cgroups of the system.` : `${count(containers.length, "container")} among ${known.length} cgroups.`} Averages over the time range; memory at its end.</p>
        )}
      </div>
      {rows.error && <Problem message={rows.error} retry={rows.retry} stale={rows.data !== null} />}
      {drawn.length > 0 && <Charts rows={drawn} />}
      <section className="card" aria-label="Containers">
        {!rows.data ? (
          !rows.error && <p className="empty">Loading the last {formatLength(w.to - w.from)}.</p>
        ) : known.length === 0 ? (
          <p className="empty">{emptyReason({ sources: sources.data, metrics: ["container_cpu_usage_seconds_total"], process: "", window: w })}</p>
        ) : (
          <div className="scroll" tabIndex={0} role="group" aria-label="Table of containers">
            <table className="data" id="containers">
              <thead>
                <tr>
                  <th scope="col">{wide ? "Cgroup" : "Container"}</th>
                  {columns.map((c) => (
                    <th key={c.key} scope="col" className="num" aria-sort={sort === c.key ? "descending" : undefined}>
                      <button type="button" className="sort" onClick={() => setSort(c.key)}>
                        <Sentence text={c.title} />
                        {sort === c.key ? " ↓" : ""}
                      </button>
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {shown.map((r) => (
                  <tr key={r.id} className="link" data-name={r.name} aria-current={r.id === place.subject ? "true" : undefined}>
                    <th scope="row" title={r.id}>
                      <PlaceLink to={goTo(place, "containers", r.id)}>{r.name}</PlaceLink>
                    </th>
                    {columns.map((c) => (
                      <td key={c.key} className="num" title={rawValue(r.values[c.key], c.unit)} data-column={c.key} data-value={r.values[c.key] ?? ""}>
                        {c.key === "limit" && r.values.limit === undefined ? "none" : formatValue(r.values[c.key], c.unit)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
            <div className="row">
              {sorted.length > shown.length && (
                <button type="button" className="text-button" onClick={() => setAll(true)}>
                  Show all {sorted.length}
                </button>
              )}
              {containers.length > 0 && (
                <label className="small dim">
                  <input type="checkbox" checked={everything} onChange={(e) => setEverything(e.target.checked)} /> include system cgroups
                </label>
              )}
            </div>
          </div>
        )}
      </section>
    </>
  );
}

function Charts({ rows }: { rows: Row[] }) {
  const { window: w } = useMachine();
  const m = [...own(w), among("id", rows.map((r) => r.id), "=~")];
  const names = new Map(rows.map((r) => [r.id, r.name]));
  const nameOf = (metric: { [label: string]: string }) => names.get(metric["id"] ?? "") ?? metric["id"] ?? "";
  const rate = (metric: string) => `sum by (id) (rate(${select(metric, m)}[${rateWindow(w)}]))`;
  return (
    <div className="grid">
      <QueryChart title="CPU, percent of one core" unit="ratio" by={nameOf} metrics={["container_cpu_usage_seconds_total"]} expr={rate("container_cpu_usage_seconds_total")} />
      <QueryChart title="Memory, working set" unit="bytes" by={nameOf} metrics={["container_memory_working_set_bytes"]} expr={`sum by (id) (${select("container_memory_working_set_bytes", m)})`} />
      <QueryChart title="Threads" unit="" by={nameOf} metrics={["container_threads"]} expr={`sum by (id) (${select("container_threads", m)})`} />
    </div>
  );
}
