// The kernel work of all processes: charts of the busiest, and who makes which calls.
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { TopChart } from "../charts/charts";
import { keyOf } from "../charts/data";
import { gridCSV, gridOfPairs } from "../charts/heat";
import { HeatMap } from "../charts/heat-map";
import { PanelBox, useSeen } from "../charts/panel";
import { PlaceLink } from "../frame/link";
import { counters, increaseBy, processFilter } from "../query/promql";
import { watched } from "../query/watched";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { count } from "../words/verdict";

export function Work() {
  const place = usePlace();
  const filter = processFilter(place.process);
  const toProcess = (name: string) => goTo(place, "processes", name);
  return (
    <section aria-labelledby="work">
      <div className="section-head">
        <h2 id="work">Kernel work by process</h2>
        <p>The five busiest by name, in rates per second.</p>
      </div>
      <div className="grid">
        <TopChart title="System calls per second" unit="1/s" counter={counters.syscalls} by="process" matches={filter} target={toProcess} />
        <TopChart title="System calls per second, by call" unit="1/s" counter={counters.syscallsByCall} by="syscall" matches={filter} />
        <TopChart title="Context switches per second" unit="1/s" counter={counters.switches} by="process" matches={filter} target={toProcess} />
        <TopChart title="Page faults per second" unit="1/s" counter={counters.faults} by="process" matches={filter} target={toProcess} />
      </div>
      <CallMap />
    </section>
  );
}

/** Who makes which system calls: the largest of both as a heat map. */
function CallMap() {
  const place = usePlace();
  const { window } = useMachine();
  const whole = { ...window, ...steady(window) };
  const [ref, seen] = useSeen();
  // All calls of all processes over a day exceed one query of the monitor.
  const w = { ...whole, from: Math.max(whole.from, whole.to - 3600) };
  const expr = `topk(2000, ${increaseBy({ metric: "tee_syscalls_total" }, "process, syscall", processFilter(place.process), w)})`;
  const data = useResource(seen ? `${expr} ${keyOf(w)}` : null, async () => {
    const [s, answer] = await Promise.all([watched(w), queryAt(expr, w.to)]);
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
