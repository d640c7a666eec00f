// All machines: whether one has a problem, what it is, and the way to each.
import { asking, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { Causes, FleetPage } from "../api/types";
import { CauseList } from "../fleet/causes";
import { KindTable } from "../fleet/kinds";
import { MachineTable, rows } from "../fleet/table";
import "../fleet/fleet.css";
import { levelIcons } from "../frame/level";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { usePlace } from "../state/use-place";
import { fleetVerdict } from "../words/fleet";

export default function FleetPageView() {
  const { tick } = useMachine();
  const { filter, subject, sort } = usePlace();
  const every = Math.floor(tick / 15);
  const name = asking("machines", { text: filter.text, tee: filter.environment, health: filter.verdict, rule: subject, sort, limit: rows });
  const list = useResource<FleetPage>(`${name} ${every}`, (s) => getDocument(name, s));
  const causes = useResource<Causes>(`causes ${every}`, (s) => getDocument("causes", s));
  // The content below the causes waits for them, so nothing jumps.
  if (!(list.data ?? list.error) || !(causes.data ?? causes.error)) return <p className="empty page-loading">Loading the machines.</p>;
  return (
    <>
      {list.data && <VerdictLine fleet={list.data} />}
      {list.error && <Problem message={list.error} retry={list.retry} stale={list.data !== null} />}
      {causes.error && <Problem message={causes.error} retry={causes.retry} stale={causes.data !== null} />}
      {causes.data && <CauseList causes={causes.data.causes ?? []} />}
      {list.data && <KindTable fleet={list.data} />}
      {list.data && <MachineTable key={name} first={list.data} asked={name} loading={list.loading} causes={causes.data?.causes ?? []} />}
    </>
  );
}

function VerdictLine({ fleet }: { fleet: FleetPage }) {
  const v = fleetVerdict(fleet);
  const Icon = levelIcons[v.level];
  return (
    <section className={`verdict verdict-${v.level}`} aria-label="Verdict" data-level={v.level}>
      <Icon />
      <div>
        <h2>{v.headline}</h2>
        <p>{v.detail}</p>
      </div>
    </section>
  );
}
