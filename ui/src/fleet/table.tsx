// One row for each machine. The monitor filters and sorts, and gives a hundred rows at a time, so thousands of
// machines cost no more than a page of them.
import { useEffect, useState, type ReactNode } from "react";
import { getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { FleetCause, FleetPage, FleetRow } from "../api/types";
import { formatValue, rawValue, type Unit } from "../format/number";
import { formatLength } from "../format/time";
import { levelIcons } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { SortHead } from "../frame/sorted-table";
import { useMachine } from "../state/machine";
import { goTo, home } from "../state/place";
import { here, move, usePlace } from "../state/use-place";
import { healths, healthWords, machineOf, teeWords } from "../words/fleet";
import { halfInterval, roughly } from "../words/remarks";

/** Rows at a time. */
export const rows = 100;

interface Column {
  /** Its name in the address, by which the monitor sorts; "" is not sorted by. */
  key: string;
  title: string;
  hint?: string;
  num?: boolean;
  wide?: boolean;
  cell: (r: FleetRow, tick: number) => ReactNode;
}

const columns: Column[] = [
  { key: "", title: "State", cell: (r) => <State row={r} /> },
  { key: "tee", title: "TEE", cell: (r) => <To row={r} page="tee" text={teeWords(r.tee)} /> },
  { key: "findings", title: "Worst finding", hint: "Sorted by the number of open findings with severity warning or critical", cell: (r) => <Worst row={r} /> },
  { key: "share", title: "Explained share", hint: "The largest share of a subject's time that an open finding explains", num: true, cell: (r) => <Figure row={r} column="share" value={r.share ? (r.share[0] + r.share[1]) / 2 : undefined} unit="ratio" text={r.share ? [...new Set(r.share.map((v) => formatValue(v, "ratio")))].join(" to ") : "–"} /> },
  { key: "waiting", title: "Waiting for a CPU", hint: "Share of time in which a task waited for a CPU", num: true, cell: (r) => <Figure row={r} column="waiting" value={r.waiting} unit="ratio" /> },
  { key: "cost", title: "Cost of teescope", hint: "CPU time that teescope uses on the machine, as a share of one core", num: true, cell: (r) => <Figure row={r} column="cost" value={r.cost} unit="ratio" /> },
  { key: "sources", title: "Sources", hint: "Sources that deliver values, and the largest error of an estimate (half of its 95 % interval)", cell: (r) => <Quality row={r} /> },
  { key: "version", title: "Version", wide: true, cell: (r) => r.version ?? <span className="dim">unknown</span> },
  { key: "seen", title: "Last seen", hint: "The machines seen longest ago come first", cell: (r, tick) => <Seen row={r} tick={tick} /> },
];

interface Props {
  first: FleetPage;
  /** The call that gave the first rows. */
  asked: string;
  loading: boolean;
  causes: FleetCause[];
}

export function MachineTable({ first, asked, loading, causes }: Props) {
  const place = usePlace();
  const { tick } = useMachine();
  const [offset, setOffset] = useState(0);
  const name = `${asked}&offset=${offset}`;
  const further = useResource<FleetPage>(offset === 0 ? null : `${name} ${Math.floor(tick / 15)}`, (s) => getDocument(name, s));
  const page = offset === 0 ? first : further.data;
  const list = page?.machines ?? [];
  const matched = (page ?? first).matched;
  const cause = causes.find((c) => c.rule === place.subject);
  return (
    <section className="card" aria-labelledby="machines">
      <div className="section-head">
        <h2 id="machines">Machines</h2>
        <p data-matched={matched}>{matched === first.all ? `${first.all} in all.` : `${matched} of ${first.all}${cause ? ` with: ${cause.title}` : place.subject ? " with the chosen cause" : ""}.`}</p>
      </div>
      <Filters cause={cause} />
      {further.error && <Problem message={further.error} retry={further.retry} stale={further.data !== null} />}
      {matched === 0 && (
        <p className="empty">
          No machine passes these filters.{" "}
          <button type="button" className="text-button" onClick={() => move({ filter: home.filter, subject: "" })}>
            Show all {first.all}
          </button>
        </p>
      )}
      {matched > 0 && (
        <div className={loading || !page ? "scroll dimmed" : "scroll"} tabIndex={0} role="group" aria-label="Table of machines" aria-busy={!page}>
          <table className="data fleet" id="fleet">
            <thead>
              <tr>
                <Head column={{ key: "name", title: "Machine", cell: () => null }} />
                {columns.map((c) => (
                  <Head key={c.title} column={c} />
                ))}
              </tr>
            </thead>
            <tbody>
              {list.map((r) => (
                <tr key={`${r.job} ${r.instance}`} data-machine={r.instance} data-job={r.job} data-state={r.health}>
                  <th scope="row">
                    <Name row={r} />
                  </th>
                  {columns.map((c) => (
                    <td key={c.title} className={[c.num ? "num" : "", c.wide ? "wide-only" : ""].join(" ").trim() || undefined}>
                      {c.cell(r, tick)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {matched > rows && (
        <div className="row table-foot">
          <button type="button" className="text-button" disabled={offset === 0} onClick={() => setOffset(offset - rows)}>
            Previous
          </button>
          <span data-rows={`${offset + 1}-${Math.min(offset + rows, matched)}`}>
            {offset + 1} to {Math.min(offset + rows, matched)} of {matched}
          </span>
          <button type="button" className="text-button" disabled={offset + rows >= matched} onClick={() => setOffset(offset + rows)}>
            Next
          </button>
        </div>
      )}
    </section>
  );
}

function Head({ column: c }: { column: Column }) {
  const { sort } = usePlace();
  // Without a choice the worst state comes first.
  const sorted = c.key !== sort ? undefined : c.key === "name" || c.key === "tee" ? "ascending" : "descending";
  return <SortHead title={c.title} hint={c.hint} sort={c.key} sorted={sorted} className={[c.num ? "num" : "", c.wide ? "wide-only" : ""].join(" ").trim() || undefined} />;
}

function Filters({ cause }: { cause: FleetCause | undefined }) {
  const { filter, subject } = usePlace();
  const [text, setText] = useState(filter.text);
  useEffect(() => setText(filter.text), [filter.text]);
  useEffect(() => {
    if (text === here().filter.text) return;
    const timer = setTimeout(() => move({ filter: { ...here().filter, text } }, "replace"), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <form className="row fleet-filters" role="search" aria-label="Filter machines" onSubmit={(e) => e.preventDefault()}>
      <label>
        Name or label <input className="text-input" type="search" value={text} onChange={(e) => setText(e.target.value)} spellCheck={false} />
      </label>
      <label>
        State{" "}
        <select value={filter.verdict} onChange={(e) => move({ filter: { ...here().filter, verdict: e.target.value } }, "replace")}>
          <option value="">all</option>
          {healths.map((h) => (
            <option key={h} value={h}>
              {healthWords[h]}
            </option>
          ))}
        </select>
      </label>
      {filter.environment !== "" && <Chosen text={teeWords(filter.environment)} drop={() => move({ filter: { ...here().filter, environment: "" } }, "replace")} />}
      {subject !== "" && <Chosen text={cause?.title ?? "the chosen cause"} drop={() => move({ subject: "" }, "replace")} />}
    </form>
  );
}

/** A filter that was set by a click, and the way to drop it. */
function Chosen({ text, drop }: { text: string; drop: () => void }) {
  return (
    <button type="button" className="chip chip-button" onClick={drop}>
      <span className="hidden">Drop the filter </span>
      {text} ×
    </button>
  );
}

function To({ row, page, text }: { row: FleetRow; page: "now" | "tee" | "settings"; text: string }) {
  const place = usePlace();
  return <PlaceLink to={{ ...goTo(place, page), machine: machineOf(row) }}>{text}</PlaceLink>;
}

function Name({ row: r }: { row: FleetRow }) {
  const labels = Object.entries(r.labels ?? {});
  const more = [r.name === r.instance ? "" : r.instance, ...labels.map(([k, v]) => `${k}=${v}`)].filter(Boolean);
  return (
    <>
      <To row={r} page="now" text={r.name} />
      {r.own && <span className="dim small"> this monitor's</span>}
      {r.agents !== undefined && <span className="note-warn small block">{r.agents} agents under one name: their numbers are added up</span>}
      {more.length > 0 && (
        <span className="dim small block" title={more.join(", ")}>
          {more.slice(0, 2).join(", ")}
        </span>
      )}
    </>
  );
}

const looks = { good: "good", unknown: "unknown", warning: "warning", critical: "critical", gone: "critical" } as const;

function State({ row: r }: { row: FleetRow }) {
  const Icon = levelIcons[looks[r.health]];
  return (
    <span className={`severity severity-${looks[r.health]}`}>
      <Icon /> {healthWords[r.health]}
    </span>
  );
}

function Worst({ row: r }: { row: FleetRow }) {
  const place = usePlace();
  if (!r.worst) return <span className="dim">–</span>;
  return (
    <>
      <PlaceLink to={{ ...goTo(place, "findings", r.worst.id), machine: machineOf(r) }}>{r.worst.title}</PlaceLink>
      {r.findings > 1 && <span className="dim small"> and {r.findings - 1} more</span>}
    </>
  );
}

function Figure({ row, column, value, unit, text }: { row: FleetRow; column: string; value: number | undefined; unit: Unit; text?: string }) {
  return (
    <span data-column={column} data-of={row.instance} data-value={value ?? ""} title={value === undefined ? "No reading." : rawValue(value, unit)}>
      {text ?? formatValue(value, unit)}
    </span>
  );
}

function Quality({ row: r }: { row: FleetRow }) {
  if (r.sources === 0) return <span className="dim">no reading</span>;
  const estimate = r.error !== undefined ? `, ±${roughly(halfInterval(r.error))}` : r.coverage !== undefined && r.coverage < 0.999 ? `, counts ${roughly(r.coverage)}` : "";
  return (
    <span className={r.up < r.sources ? "note-warn" : undefined} data-column="sources" data-value={`${r.up}/${r.sources}`} title={r.blind ? `${r.blind} hidden by hardware, hypervisor or budget` : undefined}>
      {r.up} of {r.sources}{estimate}
    </span>
  );
}

function Seen({ row: r, tick }: { row: FleetRow; tick: number }) {
  if (!r.lastSeen) return <span className="dim">never</span>;
  const at = Date.parse(r.lastSeen) / 1000;
  return <time dateTime={r.lastSeen} title={new Date(at * 1000).toLocaleString("en-GB")}>{tick - at < 10 ? "now" : `${formatLength(tick - at).split(" ").slice(0, 2).join(" ")} ago`}</time>;
}
