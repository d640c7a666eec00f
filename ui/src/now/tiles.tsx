// The machine at a glance: six numbers, each with the line of its window.
import { useLines, type Line } from "../charts/data";
import { node } from "../charts/node";
import { useSeen } from "../charts/panel";
import { SparkLine } from "../charts/spark";
import { formatValue, rawValue, type Unit } from "../format/number";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { own, rateWindow, select } from "../query/promql";
import { latest } from "../query/series";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import type { Window } from "../state/window";

interface Tile extends Line {
  unit: Unit;
  /** What it leaves out. */
  without?: string;
  /** The value at the upper end of the line, if there is one. */
  top?: number;
}

function tilesOf(w: Window): Tile[] {
  const all = (lines: Line[]) => lines.map((l) => `(${l.expr})`).join(" + ");
  const idle = `rate(${select("node_cpu_seconds_total", [...own(w), { label: "mode", op: "=~", value: "idle|iowait" }])}[${rateWindow(w)}])`;
  const gauge = (metric: string) => `sum(${select(metric, own(w))})`;
  const [received, sent] = node.network(w).lines;
  return [
    { name: "CPU in use", unit: "ratio", top: 1, expr: `clamp_min(1 - avg(sum by (cpu) (${idle})), 0)` },
    { name: "Waiting for a CPU", unit: "ratio", top: 1, expr: `clamp_max(${node.pressure(w).lines[0]!.expr}, 1)` },
    { name: "Memory in use", unit: "ratio", top: 1, expr: `1 - ${gauge("node_memory_MemAvailable_bytes")} / ${gauge("node_memory_MemTotal_bytes")}` },
    { name: "Disk", unit: "bytes/s", expr: all(node.disk(w).lines) },
    { name: "Network", unit: "bytes/s", without: "loopback", expr: all([received!, sent!]) },
    { name: "Runnable tasks", unit: "", expr: gauge("node_procs_running") },
  ];
}

export function Tiles() {
  const place = usePlace();
  const { window: w, platform } = useMachine();
  const tiles = tilesOf(w);
  const [ref, seen] = useSeen<HTMLElement>();
  const data = useLines(tiles, w, seen);
  return (
    <section ref={ref} aria-labelledby="machine-tiles">
      <div className="section-head">
        <h2 id="machine-tiles">Machine</h2>
        <PlaceLink to={goTo(place, "machine")}>All charts of the machine</PlaceLink>
      </div>
      {data.error && <Problem message={data.error} retry={data.retry} stale={data.data !== null} />}
      <ul className="tiles">
        {tiles.map((t) => {
          const series = data.data?.series.find((s) => s.name === t.name);
          // What a machine had before it vanished is not its state now.
          const value = series && !platform.data?.gone ? latest(series) : null;
          return (
            <li key={t.name} className="tile" data-tile={t.name} data-value={value ?? ""}>
              <span className="dim small">
                {t.name}
                {t.without && ` without ${t.without}`}
              </span>
              <b title={data.data ? rawValue(value, t.unit) : undefined}>{data.data ? formatValue(value, t.unit) : " "}</b>
              <div className="spark">{series && <SparkLine values={series.values} label={`${t.name}, over the window`} top={t.top ?? 0} />}</div>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
