// One process: where its time goes, and what it does.
import { asking, getDocument, queryAt } from "../api/client";
import { useResource } from "../api/resource";
import type { Process } from "../api/types";
import { Explained } from "../explain/explanation";
import { formatValue, rawValue } from "../format/number";
import { PlaceLink } from "../frame/link";
import { tabOf, Tabs } from "../frame/tabs";
import { own, rateWindow, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { containerName } from "../words/container";
import { Calls, Faults, InputOutput, ProcessFindings, Waits } from "./tabs";

const tabs = { calls: "Calls", waits: "Waits", faults: "Page faults", io: "Input and output", findings: "Findings" };
const views = { calls: Calls, waits: Waits, faults: Faults, io: InputOutput, findings: ProcessFindings };

export default function ProcessPage({ name }: { name: string }) {
  const place = usePlace();
  const tab = tabOf(tabs, place);
  const View = views[tab];
  return (
    <>
      <Header name={name} />
      <Explained />
      <Tabs label={`What ${name} does`} tabs={tabs} current={tab} />
      <View name={name} />
    </>
  );
}

function Header({ name }: { name: string }) {
  const place = usePlace();
  const { window: w } = useMachine();
  const expr = `sum(rate(${select("tee_process_cpu_seconds_total", [...own(w), { label: "process", op: "=", value: name }])}[${rateWindow(w)}]))`;
  const now = useResource(w.instance === "" ? null : `${expr} ${w.to}`, () => queryAt(expr, w.to));
  const cpu = now.data?.rows[0] ? Number(now.data.rows[0].value[1]) : null;
  return (
    <div className="section-head first process-head">
      <h2>{name}</h2>
      <p title={rawValue(cpu, "ratio")} data-cpu={cpu ?? ""}>
        {cpu !== null && `${formatValue(cpu, "ratio")} of one core ${w.live ? "now" : "at the end of the range"}`}
      </p>
      <PlaceLink to={goTo(place, "processes")}>All processes</PlaceLink>
      <Running name={name} />
    </div>
  );
}

/** The number of process ids shown; the others are counted. */
const most = 8;

/** The running processes of the name: their ids, commands, and places. */
function Running({ name }: { name: string }) {
  const { tick, platform } = useMachine();
  const call = asking("processes", { name });
  // The monitor sees the running processes of its own machine only.
  const here = platform.data !== null && !platform.data.elsewhere;
  const found = useResource<Process[]>(here ? `${call} ${Math.floor(tick / 60)}` : null, (s) => getDocument(call, s));
  const list = found.data ?? [];
  if (platform.data?.elsewhere) return <p className="running">Process ids of another machine are not available here.</p>;
  if (found.error) return <p className="running note-warn">The process ids of this name are unknown: {found.error}</p>;
  if (!found.data) return <p className="running" aria-hidden="true" />;
  if (list.length === 0) return <p className="running">No process with this name is running.</p>;
  const ids = list.slice(0, most).map((p) => p.pid).join(", ");
  const distinct = (of: (p: Process) => string | undefined) => [...new Set(list.flatMap((p) => of(p) || []))];
  const commands = distinct((p) => p.command);
  const containers = distinct((p) => p.container);
  const groups = distinct((p) => p.cgroup);
  const files = new Map(list.flatMap((p) => p.files ?? []).map((f) => [`${f.device} ${f.inode}`, f]));
  return (
    <>
    <p className="running" data-pids={list.map((p) => p.pid).join(" ")}>
      <span>
        {list.length === 1 ? "pid" : "pids"} {ids}
        {list.length > most && ` and ${list.length - most} more`}
      </span>
      {commands.length > 0 && <code>{commands.slice(0, 2).join(", ")}</code>}
      <span title={groups.join("\n")}>{containers.length > 0 ? `container ${containers.map((c) => c.slice(0, 12)).join(", ")}` : groups.length > 0 ? `group ${containerName({ id: groups[0]! })}` : ""}</span>
    </p>
    {files.size > 0 && (
      <details className="running">
        <summary>Open files with their inodes (waiting for disks is shown by inode)</summary>
        <ul>
          {[...files.values()].map((f) => (
            <li key={`${f.device} ${f.inode}`}>
              inode {f.inode} on {f.device}: <code>{f.path}</code>
            </li>
          ))}
        </ul>
      </details>
    )}
    </>
  );
}
