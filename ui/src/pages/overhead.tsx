// What the monitor costs and what its sources say, with their switches.
import { Switch } from "@mantine/core";
import "@mantine/core/styles/Switch.css";
import { useEffect, useState } from "react";
import { setSource } from "../api/client";
import type { Overhead, Source, SourceSetting } from "../api/types";
import { LinesChart, QueryChart } from "../charts/charts";
import { formatValue, rawValue } from "../format/number";
import { IconGood, IconInfo, IconUnknown, IconWarning } from "../frame/icons";
import { levelIcons } from "../frame/level";
import { Problem } from "../frame/problem";
import { own, rateWindow, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { costOf, count } from "../words/verdict";

const parts: Record<string, string> = {
  userspace: "reading, storing and answering",
  body: "eBPF programs, as the kernel's own statistics show",
  dispatch: "getting into these programs, estimated",
};

export default function OverheadPage() {
  const { platform, overhead, sources, window: w, refresh } = useMachine();
  const o = overhead.data;
  const match = own(w);
  return (
    <>
      {o && <CostLine overhead={o} cpus={platform.data?.cpus ?? 1} />}
      {overhead.error && <Problem message={overhead.error} retry={overhead.retry} stale={o !== null} />}
      {o && (
        <section className="card" aria-labelledby="parts">
          <div className="section-head">
            <h2 id="parts">By part, over the last minute</h2>
          </div>
          <dl className="facts">
            {[...new Set([...Object.keys(o.cpu ?? {}), ...Object.keys(o.missing ?? {})])].sort().map((part) => {
              const v = o.cpu?.[part];
              return (
                <div key={part} style={{ display: "contents" }}>
                  <dt>
                    {part}
                    {parts[part] && <span className="small">: {parts[part]}</span>}
                  </dt>
                  <dd title={rawValue(v, "ratio")} data-part={part} data-value={v ?? ""}>
                    {v === undefined ? `Not known. ${sentence(o.missing?.[part] ?? "")}` : `${formatValue(v, "ratio")} of one core`}
                  </dd>
                </div>
              );
            })}
            <dt>memory</dt>
            <dd title={o.rssBytes ? rawValue(o.rssBytes, "bytes") : undefined}>{o.rssBytes ? formatValue(o.rssBytes, "bytes") : "Not known yet."}</dd>
            <dt>series in the store</dt>
            <dd title={o.series ? rawValue(o.series, "") : undefined}>{o.series ? formatValue(o.series, "") : "Not known yet."}</dd>
          </dl>
          {o.storeError && <Problem message={sentence(o.storeError)} retry={overhead.retry} />}
        </section>
      )}
      <section className="card" aria-labelledby="sources">
        <div className="section-head">
          <h2 id="sources">Sources</h2>
          <p>A source that is switched off costs nothing; what it would have counted is not known afterwards.</p>
        </div>
        {sources.error && <Problem message={sources.error} retry={sources.retry} stale={sources.data !== null} />}
        <div className="scroll" tabIndex={0} role="group" aria-label="Table of sources">
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Source</th>
                <th scope="col">State</th>
                <th scope="col" className="num">
                  <Sentence text="Coverage" />
                </th>
                <th scope="col" className="num">
                  Series
                </th>
                <th scope="col">Only processes that match</th>
                <th scope="col">On</th>
              </tr>
            </thead>
            <tbody>
              {(sources.data ?? []).map((s) => (
                <SourceRow key={s.name} source={s} changed={refresh} />
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <div className="grid">
        <QueryChart title="CPU of the monitor by part, percent of one core" unit="ratio" by="part" metrics={["teescope_overhead_cpu_seconds_total"]} expr={`sum by (part) (rate(${select("teescope_overhead_cpu_seconds_total", match)}[${rateWindow(w)}]))`} />
        <LinesChart title="Memory of the monitor" unit="bytes" metrics={["process_resident_memory_bytes"]} lines={[{ name: "resident", expr: `sum(${select("process_resident_memory_bytes", match)})` }]} />
        <LinesChart title="Series in the store" unit="" metrics={["teescope_store_series"]} lines={[{ name: "series", expr: `sum(${select("teescope_store_series", match)})` }]} />
        <QueryChart title="Time to read each source" unit="seconds" by="source" metrics={["teescope_source_read_seconds"]} expr={`max by (source) (${select("teescope_source_read_seconds", match)})`} />
      </div>
    </>
  );
}

function CostLine({ overhead: o, cpus }: { overhead: Overhead; cpus: number }) {
  // The budget is a share of each core.
  const budget = o.budget * cpus;
  const cost = costOf(o);
  const over = cost !== null && cost > budget;
  const unknown = Object.keys(o.missing ?? {}).length;
  const level = o.storeError ? "critical" : cost === null ? "unknown" : over ? "warning" : "good";
  const Icon = levelIcons[level];
  return (
    <section className={`verdict verdict-${level}`} aria-label="Verdict">
      <Icon />
      <div>
        <h2>
          {cost === null
            ? "What the monitor costs is not known yet."
            : `The monitor takes ${formatValue(cost, "ratio")} of one core, ${over ? "more than" : "within"} its budget of ${formatValue(budget, "ratio")} on ${cpus === 1 ? "this machine with one CPU" : `these ${cpus} CPUs`}.`}
        </h2>
        <p>
          {over && "Switching off a source or narrowing its filter below makes it cheaper. "}
          {cost !== null && unknown > 0 && `${count(unknown, "part")} of the cost ${unknown === 1 ? "is" : "are"} not known and not in this sum.`}
        </p>
      </div>
    </section>
  );
}

const states: Record<string, { look: string; icon: () => React.ReactNode }> = {
  available: { look: "chip-good", icon: IconGood },
  degraded: { look: "chip-warn", icon: IconWarning },
  unavailable: { look: "chip-bad", icon: IconWarning },
  "not here": { look: "", icon: IconInfo },
  off: { look: "", icon: IconInfo },
};

function SourceRow({ source: s, changed }: { source: Source; changed: () => void }) {
  const [error, setError] = useState<string | null>(null);
  const [filter, setFilter] = useState(s.process ?? "");
  useEffect(() => setFilter(s.process ?? ""), [s.process]);
  const set = async (setting: SourceSetting) => {
    try {
      await setSource(s.name, setting);
      setError(null);
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e));
    }
    changed();
  };
  const look = states[s.state] ?? { look: "", icon: IconUnknown };
  const Icon = look.icon;
  const byProcess = s.metrics?.some((m) => /^tee_(syscall|context_switches|page_faults|process_cpu)/.test(m)) ?? false;
  return (
    <tr data-source={s.name} data-state={s.state}>
      <th scope="row">
        {s.name}
        <div className="dim small">
          <Sentence text={s.doc} />
        </div>
        {error && <div className="problem small">{sentence(error)}</div>}
      </th>
      <td>
        <span className={`chip ${look.look}`}>
          <Icon /> {s.blind ? "hidden" : s.state}
        </span>
        {s.reason && s.state !== "off" && <div className="small">{s.reason}</div>}
        {s.remedy && s.state !== "off" && <div className="small dim">What helps: {s.remedy}</div>}
      </td>
      <td className="num" title={s.missed === undefined ? "nothing is read" : `missed ${s.missed} events, folded ${s.folded}`}>
        {s.coverage === undefined ? "–" : formatValue(s.coverage, "ratio")}
      </td>
      <td className="num">{formatValue(s.series, "")}</td>
      <td>
        {byProcess && s.state !== "not here" && (
          <form
            className="row"
            onSubmit={(e) => {
              e.preventDefault();
              void set({ process: filter });
            }}
          >
            <input className="text-input mono" value={filter} onChange={(e) => setFilter(e.target.value)} placeholder="all" aria-label={`Process filter of ${s.name}`} size={14} spellCheck={false} />
            {filter !== (s.process ?? "") && (
              <button type="submit" className="text-button">
                Set
              </button>
            )}
          </form>
        )}
      </td>
      <td>{s.state !== "not here" && <Switch checked={s.state !== "off"} onChange={(e) => void set({ on: e.currentTarget.checked })} aria-label={`Source ${s.name}`} size="sm" />}</td>
    </tr>
  );
}
