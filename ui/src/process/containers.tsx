// Containers and other cgroups: their usage and their limits.
import { useState } from "react";
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { QueryChart } from "../charts/charts";
import { keyOf } from "../charts/data";
import { Places } from "../charts/panel";
import { formatValue } from "../format/number";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { SortedTable, useSorted, type Column } from "../frame/sorted-table";
import { among, own, rateWindow, select } from "../query/promql";
import { watched } from "../query/watched";
import { useMachine } from "../state/machine";
import { usePlace } from "../state/use-place";
import { emptyReason, sentence } from "../words/empty";
import { containerName, type ContainerLabels } from "../words/container";
import { count } from "../words/verdict";
import { steady, type Window } from "../state/window";
import { asked, tableQueries, type Key } from "./container-columns";

interface Row {
  id: string;
  name: string;
  kind: "container" | "pod" | "other";
  values: Partial<Record<Key, number>>;
}

const columns: Column<Row>[] = asked.map(({ key, title, unit, why }) => ({
  key,
  title,
  unit,
  value: (r) => r.values[key],
  text: (r) => (key === "limit" && r.values.limit === undefined ? "none" : formatValue(r.values[key], unit)),
  absent: sentence(why),
}));

export function Containers() {
  const place = usePlace();
  const { window: w, sources } = useMachine();
  const [everything, setEverything] = useState(false);
  const rows = useResource<Row[]>(w.instance === "" ? null : keyOf({ ...w, ...steady(w) }), async () => {
    const whole: Window = { ...w, ...steady(w) };
    const [seconds, ...answers] = await Promise.all([watched(whole), ...tableQueries(w).map((q) => queryAt(q, whole.to))]);
    const byId = new Map<string, Row>();
    for (const [i, c] of asked.entries()) {
      for (const r of answers[i]!.rows) {
        const l = r.metric as ContainerLabels;
        const row = byId.get(l.id) ?? { id: l.id, name: containerName(l), kind: l.name || l.container ? "container" : l.pod ? "pod" : "other", values: {} };
        row.values[c.key] = Number(r.value[1]) / (c.counted ? seconds : 1);
        byId.set(l.id, row);
      }
    }
    return [...byId.values()];
  });
  const known = rows.data ?? [];
  const containers = known.filter((r) => r.kind === "container");
  const withPods = known.filter((r) => r.kind !== "other");
  // A machine without containers shows the units of systemd.
  const wide = everything || containers.length === 0;
  const { by, sorted } = useSorted(columns, wide ? known : withPods, (r) => r.id);
  const chosen = known.find((r) => r.id === place.subject);
  const drawn = chosen ? [chosen] : sorted.slice(0, 6);
  return (
    <>
      <div className="section-head">
        <h2>{chosen ? chosen.name : "Containers"}</h2>
        {chosen ? (
          <PlaceLink to={{ subject: "" }}>All containers</PlaceLink>
        ) : (
          rows.data && known.length > 0 && <p>{containers.length === 0 ? `No container runs here; the table shows the ${known.length} cgroups of the system.` : `${count(containers.length, "container")} among ${known.length} cgroups.`} Values are averages over the time range; memory is the value at its end.</p>
        )}
      </div>
      {rows.error && <Problem message={rows.error} retry={rows.retry} stale={rows.data !== null} />}
      {drawn.length > 0 ? <Charts rows={drawn} /> : !rows.data && <Places count={3} />}
      {/* Not before its place is known: that of the charts above stays free if there is none. */}
      {rows.data && <section className="card" aria-label="Containers">
        {known.length === 0 ? (
          <p className="empty">{emptyReason({ sources: sources.data, metrics: ["container_cpu_usage_seconds_total"], process: "", window: w })}</p>
        ) : (
          <SortedTable
            id="containers"
            label="Table of containers"
            corner={wide ? "Cgroup" : "Container"}
            columns={columns}
            by={by}
            sorted={sorted}
            first={30}
            idOf={(r) => r.id}
            nameOf={(r) => r.name}
            link={(r) => <PlaceLink to={{ subject: r.id }}>{r.name}</PlaceLink>}
            current={place.subject}
            foot={(shown) => <Absent rows={shown} />}
            tools={
              containers.length > 0 && (
                <label className="small dim">
                  <input type="checkbox" checked={everything} onChange={(e) => setEverything(e.target.checked)} /> include system cgroups
                </label>
              )
            }
          />
        )}
      </section>}
    </>
  );
}

/** What a dash means in each column that has one. */
function Absent({ rows }: { rows: Row[] }) {
  const dashed = asked.filter((c) => c.key !== "limit" && rows.some((r) => r.values[c.key] === undefined));
  if (dashed.length === 0) return null;
  return <p className="note">{dashed.map((c) => `– under ${c.title}: ${c.why}.`).join(" ")}</p>;
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
