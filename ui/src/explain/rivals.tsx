// The processes that use the CPU while a process waits for one.
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { keyOf } from "../charts/data";
import { formatValue } from "../format/number";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, increaseBy } from "../query/promql";
import { rank } from "../query/series";
import { watched } from "../query/watched";
import { useMachine } from "../state/machine";
import { usePlace } from "../state/use-place";
import { steady } from "../state/window";

const most = 5;

export function Rivals() {
  const { subject } = usePlace();
  const { window, platform } = useMachine();
  const w = { ...window, ...steady(window) };
  const expr = increaseBy(counters.cpu, "process", [], w);
  const busy = useResource(w.instance === "" ? null : `${expr} ${keyOf(w)}`, async () => {
    const [seconds, answer] = await Promise.all([watched(w), queryAt(expr, w.to)]);
    return rank(answer.rows, "process").map((r) => ({ name: r.name, cores: r.total / seconds }));
  });
  const others = (busy.data ?? []).filter((r) => r.name !== subject).slice(0, most);
  const mine = busy.data?.find((r) => r.name === subject);
  return (
    <section className="card" aria-labelledby="rivals">
      <h2 id="rivals">Who takes the CPU</h2>
      {busy.error && <Problem message={busy.error} retry={busy.retry} stale={busy.data !== null} />}
      {busy.data && others.length === 0 && <p className="dim">No other process used the CPU in this window: a quota, or a host that takes the CPU away, makes it wait.</p>}
      <ul className="rivals">
        {others.map((r) => (
          <li key={r.name} data-rival={r.name}>
            <PlaceLink to={{ subject: r.name, beside: [], before: null }}>{r.name}</PlaceLink> {formatValue(r.cores, "cores")}
          </li>
        ))}
        {mine && (
          <li className="dim">
            {subject} itself {formatValue(mine.cores, "cores")}
            {platform.data && platform.data.cpus > 0 && `, of ${platform.data.cpus} CPUs`}
          </li>
        )}
      </ul>
    </section>
  );
}
