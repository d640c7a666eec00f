// The first page: verdict, findings, processes, machine.
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import type { FindingsRecord } from "../api/types";
import { LinesChart, QueryChart, TEEPanel, TopChart } from "../charts/charts";
import { node } from "../charts/node";
import { Spark } from "../charts/spark";
import { teeCharts } from "../charts/tee";
import { around } from "../findings/spans";
import { formatValue } from "../format/number";
import { formatSince } from "../format/time";
import { levelIcons, Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, own, processFilter, rateWindow, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { useProcesses } from "../state/processes";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { lossOf } from "../words/budget";
import { because, sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { openFindings, verdictOf } from "../words/verdict";

export function Overview() {
  const place = usePlace();
  const { window: w, platform, sources } = useMachine();
  const filter = processFilter(place.process);
  const toProcess = (name: string) => goTo(place, "processes", name);
  const strip = teeCharts(platform.data?.tees ?? null, sources.data, w).filter((c) => c.glance);
  const machine = [node.cpu(w), node.memory(w), node.disk(w), node.network(w), node.pressure(w), node.load(w)];
  return (
    <>
      <VerdictLine />
      <FindingStrip />
      {strip.length > 0 && (
        <section aria-labelledby="tee-strip">
          <div className="section-head">
            <h2 id="tee-strip">
              <Sentence text="TEE" />
            </h2>
          </div>
          <div className="grid">
            {strip.map((c) => (
              <TEEPanel key={c.title} chart={c} />
            ))}
          </div>
        </section>
      )}
      <section aria-labelledby="what-processes-do">
        <div className="section-head">
          <h2 id="what-processes-do">Processes</h2>
          <p>The five busiest by name, in rates per second.</p>
        </div>
        <div className="grid">
          <TopChart title="System calls per second" unit="1/s" counter={counters.syscalls} by="process" matches={filter} target={toProcess} />
          <TopChart title="System calls per second, by call" unit="1/s" counter={counters.syscallsByCall} by="syscall" matches={filter} />
          <TopChart title="CPU, percent of one core" unit="ratio" counter={counters.cpu} by="process" matches={filter} target={toProcess} />
          <TopChart title="Context switches per second" unit="1/s" counter={counters.switches} by="process" matches={filter} target={toProcess} />
          <TopChart title="Page faults per second" unit="1/s" counter={counters.faults} by="process" matches={filter} target={toProcess} />
          <QueryChart
            title="Page cache, pages per second, all processes"
            unit="1/s"
            by="operation"
            metrics={["tee_page_cache_pages_total"]}
            expr={`sum by (operation) (rate(${select("tee_page_cache_pages_total", own(w))}[${rateWindow(w)}]))`}
          />
        </div>
      </section>
      <section aria-labelledby="machine-strip">
        <div className="section-head">
          <h2 id="machine-strip">Machine</h2>
          <PlaceLink to={goTo(place, "infrastructure")}>All of it</PlaceLink>
        </div>
        <div className="grid">
          {machine.map((c) => (
            <LinesChart key={c.title} {...c} height={110} />
          ))}
        </div>
      </section>
      <Footer />
    </>
  );
}

/** How many process names were seen within the last five minutes. */
function useProcessCount(): number | null {
  const { tick, window: w } = useMachine();
  // Once a minute is enough for a number in a sentence.
  const minute = Math.floor(tick / 60) * 60;
  const expr = `count(count by (process) (${select("tee_process_cpu_seconds_total", own(w))}))`;
  const rows = useResource(w.instance === "" ? null : `${expr} ${minute}`, (s) => queryAt(expr, tick, s));
  const value = rows.data?.rows[0]?.value[1];
  return value === undefined ? null : Number(value);
}

function VerdictLine() {
  const { findings, overhead, platform } = useMachine();
  const v = verdictOf(findings.data, overhead.data, useProcessCount(), new Date(), platform.data?.started);
  const Icon = levelIcons[v.level];
  return (
    <section className={`verdict verdict-${v.level}`} aria-label="Verdict" data-level={v.level}>
      <Icon />
      <div>
        <h2>{v.headline}</h2>
        {v.detail && <p>{v.detail}</p>}
        {findings.error && <Problem message={findings.error} retry={findings.retry} stale={findings.data !== null} />}
      </div>
    </section>
  );
}

function FindingStrip() {
  const { findings } = useMachine();
  const open = openFindings(findings.data);
  const processes = useProcesses(open.length > 0);
  if (open.length === 0) return null;
  return (
    <section className="strip" aria-label="Open findings">
      {open.map((f) => (
        <FindingCard key={f.id} finding={f} explainable={processes.has(f.subject)} />
      ))}
    </section>
  );
}

/** Leads to the explanation of a process at that time, else to the finding. */
function FindingCard({ finding: f, explainable }: { finding: FindingsRecord; explainable: boolean }) {
  const place = usePlace();
  const { tick } = useMachine();
  const first = f.evidence?.[0];
  return (
    <PlaceLink to={explainable ? { ...goTo(place, "explain", f.subject), fixed: around(f, tick) } : goTo(place, "findings", f.id)} className="finding-card">
      <span className="row">
        <Severity level={f.severity} />
        <span className="dim small">since {formatSince(f.since)}</span>
      </span>
      <strong>{f.title}</strong>
      {first && <Spark expr={first.expr} label={first.text} />}
      <span className="row small">
        <span className="dim">{f.subject}</span>
        {f.share && <span title="Interval of its share of the time; the evidence says of which time">{`${formatValue(f.share[0], "ratio")} to ${formatValue(f.share[1], "ratio")} of its time`}</span>}
      </span>
    </PlaceLink>
  );
}

/** Unavailable and disabled sources in words, and the monitor's cost. */
function Footer() {
  const place = usePlace();
  const { sources, overhead } = useMachine();
  const all = sources.data ?? [];
  // The budget's losses are one sentence, sources that are off by default another.
  const loss = lossOf(all, overhead.data?.budget ?? 0);
  const silent = all.filter((s) => !loss.sources.includes(s.name) && (s.state === "unavailable" || (s.state === "off" && !s.optIn && !s.auto) || s.blind));
  const partly = all.filter((s) => !loss.sources.includes(s.name) && s.state === "degraded" && !s.blind);
  const waiting = all.filter((s) => s.state === "off" && s.optIn);
  const auto = all.filter((s) => s.state === "off" && s.auto);
  const o = overhead.data;
  return (
    <footer className="footer">
      {silent.map((s) => (
        <p key={s.name}>
          <strong>{s.name}</strong> {s.state === "off" ? "is switched off." : because(s.blind ? "is hidden by hardware or hypervisor" : "is unavailable", s)}
        </p>
      ))}
      {partly.map((s) => (
        <p key={s.name}>
          <strong>{s.name}</strong> {because("is incomplete", s)}
        </p>
      ))}
      {loss.sources.length > 0 && overhead.data && <p>{loss.lost}</p>}
      {waiting.length > 0 && <p>Off by default: {waiting.map((s) => s.name).join(", ")}.</p>}
      {auto.length > 0 && <p>Off until needed: {auto.map((s) => s.name).join(", ")}.</p>}
      {sources.data && silent.length + partly.length + loss.sources.length === 0 && <p>Every available source{waiting.length + auto.length > 0 && " that is on by default"} is on and complete.</p>}
      {o && (
        <p>
          The monitor: {o.rssBytes && `${formatValue(o.rssBytes, "bytes")} of memory, `}
          {o.series ? `${formatValue(o.series, "")} series` : "no reading stored yet"}.{" "}
          <PlaceLink to={goTo(place, "overhead")}>Cost of the monitor, and how to lower it</PlaceLink>
        </p>
      )}
      {o?.storeError && <Problem message={sentence(o.storeError)} retry={overhead.retry} />}
    </footer>
  );
}
