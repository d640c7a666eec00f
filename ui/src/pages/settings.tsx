// Settings: the sources, the budget and its effect on them, and the monitor's own cost.
import type { Overhead } from "../api/types";
import { LinesChart, QueryChart } from "../charts/charts";
import { formatValue, rawValue } from "../format/number";
import { levelIcons } from "../frame/level";
import { Problem } from "../frame/problem";
import { own, rateWindow, select } from "../query/promql";
import { SourceList } from "../sources/list";
import { useMachine } from "../state/machine";
import { refreshes } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { setTheme, themes, useTheme } from "../state/use-theme";
import type { Window } from "../state/window";
import { lossOf, slowedBy } from "../words/budget";
import { documents, documentURL } from "../words/documents";
import { sentence } from "../words/empty";
import { costOf, count } from "../words/verdict";

const parts: Record<string, string> = {
  userspace: "reading sources, storing, and checking rules",
  page: "answering open pages and queries; not part of the budget",
  body: "running eBPF programs, estimated from timed runs",
  dispatch: "calling these programs, estimated",
};

export default function SettingsPage() {
  const { platform, overhead, sources, window: w, refresh } = useMachine();
  const o = overhead.data;
  const elsewhere = platform.data?.elsewhere ?? false;
  const who = elsewhere ? "the agent" : "the monitor";
  // The height of the first parts depends on both answers, so nothing is shown below them before.
  if (!(o ?? overhead.error) || !(sources.data ?? sources.error)) return <p className="empty page-loading">Loading settings.</p>;
  return (
    <>
      {o && <CostLine overhead={o} cpus={platform.data?.cpus ?? (elsewhere ? 0 : 1)} elsewhere={elsewhere} />}
      {overhead.error && <Problem message={overhead.error} retry={overhead.retry} stale={o !== null} />}
      {o?.storeError && <Problem message={sentence(o.storeError)} retry={overhead.retry} />}
      {o && o.budget > 0 && sources.data && <Loss budget={o.budget} slowed={o.slowed} />}
      <SourceList sources={sources} changed={refresh} elsewhere={elsewhere} />
      <Display />
      <Documents />
      <div className="section-head">
        <h2>Cost of {who}</h2>
      </div>
      <Cost w={w} who={who} />
      {o && <Parts overhead={o} />}
      <div className="grid">
        <LinesChart title={`Memory of ${who}`} unit="bytes" metrics={["teescope_memory_bytes"]} lines={["rss", "bpf_maps"].map((kind) => ({ name: kind === "rss" ? "resident" : "eBPF maps", expr: `sum(${select("teescope_memory_bytes", [...own(w), { label: "kind", op: "=", value: kind }])})` }))} />
        {!elsewhere && <LinesChart title="Series in the store" unit="" metrics={["teescope_store_series"]} lines={[{ name: "series", expr: `sum(${select("teescope_store_series", own(w))})` }]} />}
        <QueryChart title="Time to read each source" unit="seconds" by="source" metrics={["teescope_source_read_seconds"]} expr={`max by (source) (${select("teescope_source_read_seconds", own(w))})`} />
      </div>
    </>
  );
}

function Documents() {
  return (
    <section className="card" aria-labelledby="documents">
      <details>
        <summary>
          <strong id="documents">Documentation</strong>
        </summary>
        <ul className="evidence">
          {documents.map(([name, about]) => (
            <li key={name}>
              <a href={documentURL(name)} target="_blank" rel="noreferrer">
                {name}
              </a>
              : {about}
            </li>
          ))}
        </ul>
      </details>
    </section>
  );
}

/** Display settings of this page; they do not affect other readers. */
function Display() {
  const { refresh } = usePlace();
  const theme = useTheme();
  return (
    <section className="card display-settings" aria-labelledby="display">
      <h2 id="display">This page</h2>
      <div className="row">
        <label>
          Refresh{" "}
          <select value={refresh} onChange={(e) => move({ refresh: refreshes.find((r) => r === Number(e.target.value)) ?? 0 })}>
            {refreshes.map((r) => (
              <option key={r} value={r}>
                {r === 0 ? "paused" : `every ${r} s`}
              </option>
            ))}
          </select>
        </label>
        <label>
          Colours{" "}
          <select value={theme} onChange={(e) => setTheme(themes.find((t) => t === e.target.value) ?? "auto")}>
            {themes.map((t) => (
              <option key={t} value={t}>
                {t === "auto" ? "system" : t}
              </option>
            ))}
          </select>
        </label>
      </div>
    </section>
  );
}

/** The budget over time, and the parts of the cost. */
function Cost({ w, who }: { w: Window; who: string }) {
  const match = own(w);
  const rate = (metric: string) => `rate(${select(metric, match)}[${rateWindow(w)}])`;
  const commands = `label_replace(sum(${rate("teescope_command_cpu_seconds_total")}), "part", "commands", "", "")`;
  return (
    <div className="grid grid-wide">
      <LinesChart
        title={`Busiest core: ${who.replace("the ", "")} and budget`}
        unit="ratio"
        metrics={["teescope_budget_used_ratio"]}
        lines={[
          { name: "used, highest second", expr: `max(${select("teescope_budget_used_ratio", match)})` },
          { name: "budget", expr: `max(${select("teescope_budget_ratio", match)})` },
        ]}
      />
      <QueryChart title={`CPU of ${who} by part, percent of one core`} unit="ratio" by="part" metrics={["teescope_overhead_cpu_seconds_total"]} expr={`sum by (part) (${rate("teescope_overhead_cpu_seconds_total")}) or ${commands}`} />
      <QueryChart title="Counting in the kernel by source, percent of one core" unit="ratio" by="source" metrics={["teescope_source_cpu_seconds_total"]} expr={`sum by (source) (${rate("teescope_source_cpu_seconds_total")})`} />
      <QueryChart title="Coverage: share of all events that each source counted" unit="ratio" by="source" most={16} metrics={["teescope_source_coverage_ratio"]} expr={`min by (source) (${select("teescope_source_coverage_ratio", match)}) and on (source) ${select("teescope_source_cpu_seconds_total", match)}`} />
    </div>
  );
}

/** The present effect of the budget, and how to avoid it. */
function Loss({ budget, slowed }: { budget: number; slowed: number | undefined }) {
  const { sources } = useMachine();
  const { lost, back, sources: names } = lossOf(sources.data ?? [], budget);
  return (
    <section className="card" aria-label="Effects of the budget" id="loss" data-lost={names.join(" ")}>
      <p>{lost}</p>
      {slowed !== undefined && <p>{slowedBy(slowed)}</p>}
      {back && <p className="dim">{back}</p>}
    </section>
  );
}

function Parts({ overhead: o }: { overhead: Overhead }) {
  return (
    <section className="card" aria-labelledby="parts">
      <div className="section-head">
        <h2 id="parts">By part, over the last minute</h2>
      </div>
      <dl className="facts">
        {[...new Set([...Object.keys(o.cpu ?? {}), ...Object.keys(o.missing ?? {})])].filter((p) => p !== "memory" && p !== "series").sort().map((part) => {
          const v = o.cpu?.[part];
          return (
            <div key={part} style={{ display: "contents" }}>
              <dt>
                {part}
                {parts[part] && <span className="small">: {parts[part]}</span>}
              </dt>
              <dd title={rawValue(v, "ratio")} data-part={part} data-value={v ?? ""}>
                {v === undefined ? `Unknown. ${sentence(o.missing?.[part] ?? "")}` : `${formatValue(v, "ratio")} of one core`}
              </dd>
            </div>
          );
        })}
        <dt>memory</dt>
        <dd title={o.rssBytes ? rawValue(o.rssBytes, "bytes") : undefined}>{o.rssBytes ? formatValue(o.rssBytes, "bytes") : `Unknown. ${sentence(o.missing?.["memory"] ?? "")}`}</dd>
        <dt>series in the store</dt>
        <dd title={o.series ? rawValue(o.series, "") : undefined}>{o.series ? formatValue(o.series, "") : `Unknown. ${sentence(o.missing?.["series"] ?? "")}`}</dd>
      </dl>
    </section>
  );
}

function CostLine({ overhead: o, cpus, elsewhere }: { overhead: Overhead; cpus: number; elsewhere: boolean }) {
  // The budget is a share of each core.
  const budget = o.budget * cpus;
  const cost = costOf(o);
  const over = cost !== null && budget > 0 && cost > budget;
  const whose = elsewhere ? "agent" : "monitor";
  const unknown = ["userspace", "body", "dispatch"].filter((part) => o.missing?.[part] !== undefined).length;
  const level = o.storeError ? "critical" : cost === null ? "unknown" : over ? "warning" : "good";
  const Icon = levelIcons[level];
  return (
    <section className={`verdict verdict-${level}`} aria-label="Verdict">
      <Icon />
      <div>
        <h2>
          {cost === null
            ? `The ${whose}'s cost is unknown so far.`
            : budget === 0
              ? `The ${whose} uses ${formatValue(cost, "ratio")} of one core; its budget is unknown.`
              : `The ${whose} uses ${formatValue(cost, "ratio")} of one core, ${over ? "above" : "within"} its budget of ${formatValue(budget, "ratio")} on ${cpus === 1 ? "this machine with one CPU" : `these ${cpus} CPUs`}.`}
        </h2>
        <p>
          {over && !elsewhere && "To lower the cost, switch off or limit a source below. "}
          {cost !== null && unknown > 0 && `${count(unknown, "part")} of the cost ${unknown === 1 ? "is" : "are"} unknown and not included.`}
        </p>
      </div>
    </section>
  );
}
