// The first page: problems, affected processes, and the state of the machine.
import { queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { TEEPanel, TopChart } from "../charts/charts";
import { teeCharts } from "../charts/tee";
import { formatSince } from "../format/time";
import { levelIcons } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { Notes, Problems } from "../now/problems";
import { StatusLine } from "../now/status";
import { Tiles } from "../now/tiles";
import "../now/now.css";
import { counters, own, processFilter, select, type Match } from "../query/promql";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { Sentence } from "../words/term";
import { verdictOf } from "../words/verdict";

/** A thread that sleeps has nothing to do. */
const hasWork: Match = { label: "state", op: "!=", value: "sleep" };

export function Now() {
  const place = usePlace();
  const { window: w, platform, sources, findings } = useMachine();
  const filter = processFilter(place.process);
  const toProcess = (name: string) => goTo(place, "processes", name);
  const strip = teeCharts(platform.data?.tees ?? null, sources.data, w).filter((c) => c.glance);
  // The content below the problems waits for them, so nothing jumps.
  if (!findings.data && !findings.error) return <VerdictLine />;
  return (
    <>
      <VerdictLine />
      <Problems />
      <Notes />
      <div className="grid grid-wide">
        <TopChart title="CPU by process, percent of one core" unit="ratio" counter={counters.cpu} by="process" matches={filter} target={toProcess} stack />
        <TopChart title="Threads that wait for a CPU, a disk or a lock, by process" unit="" counter={{ metric: "tee_sampled_wait_seconds_total" }} by="process" matches={[...filter, hasWork]} target={toProcess} />
      </div>
      {strip.length > 0 && (
        <section aria-labelledby="tee-strip">
          <div className="section-head">
            <h2 id="tee-strip">
              <Sentence text="TEE" />
            </h2>
            <PlaceLink to={goTo(place, "tee")}>Evidence and all charts</PlaceLink>
          </div>
          <div className="grid">
            {strip.map((c) => (
              <TEEPanel key={c.title} chart={c} />
            ))}
          </div>
        </section>
      )}
      <Tiles />
      <StatusLine />
    </>
  );
}

/** The number of process names seen within the last five minutes. */
function useProcessCount(): number | null {
  const { tick, window: w } = useMachine();
  // Once a minute is enough for a number in a sentence.
  const minute = Math.floor(tick / 60) * 60;
  const expr = `count(count by (process) (${select("tee_process_cpu_seconds_total", own(w))}))`;
  const rows = useResource(w.instance === "" ? null : `${expr} ${minute}`, () => queryAt(expr, tick));
  const value = rows.data?.rows[0]?.value[1];
  return value === undefined ? null : Number(value);
}

function VerdictLine() {
  const { findings, overhead, platform } = useMachine();
  const v = verdictOf(findings.data, overhead.data, useProcessCount(), new Date());
  if (platform.data?.gone) {
    v.headline = `No answer${platform.data.lastSeen ? ` since ${formatSince(platform.data.lastSeen)}` : ""}: the agent of this machine does not answer.${v.finding ? ` ${v.headline}.` : ""}`;
    v.level = "critical";
  }
  const Icon = levelIcons[v.level];
  return (
    <section className={`verdict verdict-${v.level}`} aria-label="Verdict" data-level={v.level}>
      <Icon />
      <div>
        <h2>{v.finding ? <PlaceLink to={{ problem: v.finding }}>{v.headline}</PlaceLink> : v.headline}</h2>
        <p>{v.detail}</p>
        {findings.error && <Problem message={findings.error} retry={findings.retry} stale={findings.data !== null} />}
      </div>
    </section>
  );
}
