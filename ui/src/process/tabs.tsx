// What one process does, by kind.
import { useState } from "react";
import { asking, getDocument, queryAt } from "../api/client";
import { useResource } from "../api/resource";
import type { Findings } from "../api/types";
import { TopChart } from "../charts/charts";
import { keyOf } from "../charts/data";
import { useSeen } from "../charts/panel";
import { lengthOf } from "../findings/timeline";
import { formatValue, rawValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, increaseBy, literal, type Match } from "../query/promql";
import { rank } from "../query/series";
import { watched } from "../query/watched";
import { useMachine } from "../state/machine";
import { steady } from "../state/window";
import { subjectOf } from "../words/problem";
import { Sentence } from "../words/term";

interface Props {
  name: string;
}

const only = (name: string): Match[] => [{ label: "process", op: "=", value: name }];
const waited = { metric: "tee_sampled_wait_seconds_total" };
const calls = { metric: "tee_syscalls_total" };

export function Calls({ name }: Props) {
  return (
    <div className="columns">
      <CallTable name={name} />
      <div className="grid">
        <TopChart title="System calls per second, by call" unit="1/s" counter={calls} by="syscall" matches={only(name)} filtered={false} />
        <TopChart title="CPU, percent of one core" unit="ratio" counter={counters.cpu} by="process" matches={only(name)} filtered={false} />
      </div>
    </div>
  );
}

export function Waits({ name }: Props) {
  const awake: Match = { label: "state", op: "!=", value: "sleep" };
  return (
    <div className="grid">
      <TopChart title="Threads that wait, by what they wait for" unit="" counter={waited} by="state" matches={[...only(name), awake]} filtered={false} />
      <TopChart title="Threads that sleep, by call" unit="" counter={waited} by="call" matches={[...only(name), { ...awake, op: "=" }]} filtered={false} />
      <TopChart title="Context switches per second" unit="1/s" counter={{ metric: "tee_context_switches_total" }} by="kind" matches={only(name)} filtered={false} />
    </div>
  );
}

export function Faults({ name }: Props) {
  const faults = { metric: "tee_page_faults_total" };
  return (
    <div className="grid">
      <TopChart title="Page faults per second, by cause" unit="1/s" counter={faults} by="cause" matches={only(name)} k={6} filtered={false} />
      <TopChart title="Page faults per second, user and kernel space" unit="1/s" counter={faults} by="space" matches={only(name)} filtered={false} />
    </div>
  );
}

/** Calls that move data or wait until it is stored. */
const moving: Match = { label: "syscall", op: "=~", value: "p?(read|write)(v|64|v2)?|send.*|recv.*|f?(data)?sync(fs)?|sync_file_range|msync|sendfile|splice|copy_file_range|io_.*" };

export function InputOutput({ name }: Props) {
  return (
    <div className="grid">
      <TopChart title="Calls that move or store data, per second" unit="1/s" counter={calls} by="syscall" matches={[...only(name), moving]} filtered={false} />
      <TopChart title="Threads that wait for a disk, by call" unit="" counter={waited} by="call" matches={[...only(name), { label: "state", op: "=", value: "disk" }]} filtered={false} />
    </div>
  );
}

export function ProcessFindings({ name }: Props) {
  const { window: w, tick } = useMachine();
  const call = asking("findings", { subject: `${literal(name)}( on ${literal(w.instance)})?`, ...steady(w), job: w.job, instance: w.instance });
  const found = useResource(w.instance === "" ? null : call, async (s) => ((await getDocument<Findings>(call, s)).findings ?? []).filter((f) => subjectOf(f) === name));
  return (
    <section className="card" aria-label={`Findings about ${name}`}>
      {found.error && <Problem message={found.error} retry={found.retry} stale={found.data !== null} />}
      {found.data?.length === 0 && <p className="empty">No finding about {name} in this time range.</p>}
      <ul className="candidates">
        {(found.data ?? []).map((f) => (
          <li key={f.id} data-found={f.rule}>
            <Severity level={f.severity} /> <PlaceLink to={{ problem: f.id }}>{f.sentence ?? f.title}</PlaceLink>{" "}
            <span className="dim small">
              {formatSince(f.since)}, for {lengthOf(f, tick)}
              {f.state === "open" && ", open"}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function CallTable({ name }: Props) {
  const { window } = useMachine();
  const w = { ...window, ...steady(window) };
  const [all, setAll] = useState(false);
  const [ref, seen] = useSeen<HTMLElement>();
  const made = useResource(seen ? `${name} ${keyOf(w)}` : null, async () => {
    const [s, answer] = await Promise.all([watched(w), queryAt(increaseBy(calls, "syscall", only(name), w), w.to)]);
    const ranking = rank(answer.rows, "syscall");
    const sum = ranking.reduce((a, r) => a + r.total, 0);
    return { rows: ranking.map((r) => ({ name: r.name, rate: r.total / s, share: r.total / sum })), rate: sum / s };
  });
  return (
    <section ref={ref} className="card" aria-label="System calls by call">
      <h3>
        <Sentence text="System calls" />, average per second
      </h3>
      {made.error && <Problem message={made.error} retry={made.retry} stale={made.data !== null} />}
      {made.data && made.data.rows.length === 0 && <p className="empty">{name} made no system call in these {formatLength(w.to - w.from)}, or calls are not counted.</p>}
      {made.data && made.data.rows.length > 0 && (
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
              <td className="num" title={rawValue(made.data.rate, "1/s")} data-value={made.data.rate}>
                {formatValue(made.data.rate, "1/s")}
              </td>
              <td />
            </tr>
            {made.data.rows.slice(0, all ? undefined : 20).map((r) => (
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
      {!all && (made.data?.rows.length ?? 0) > 20 && (
        <button type="button" className="text-button" onClick={() => setAll(true)}>
          Show all {made.data?.rows.length}
        </button>
      )}
    </section>
  );
}
