// Each run as a bar on the time axis of the monitor's charts, a lane for each arm, under the cursor
// that all charts share.
import { useState, type KeyboardEvent, type PointerEvent } from "react";
import type { ResultExperiment, ResultRun } from "../api/types";
import { setCursorTime, useCursorTime } from "../charts/cursor";
import { formatMeasure, rawMeasure } from "../format/measure";
import { formatMoment } from "../format/time";
import { zoomBack } from "../state/use-place";
import { inOrder } from "./document";
import { armLook, ArmName, Glyph } from "./marks";

const lane = 26;

export function Timeline({ doc, from, to }: { doc: ResultExperiment; from: number; to: number }) {
  const time = useCursorTime();
  const [spoken, setSpoken] = useState("");
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const runs = inOrder(doc).filter((r) => startOf(r) < to && startOf(r) + r.duration_seconds > from);
  const x = (t: number) => (100 * (Math.min(to, Math.max(from, t)) - from)) / (to - from);
  const under = time === null ? undefined : (runs.find((r) => startOf(r) <= time && time <= startOf(r) + r.duration_seconds) ?? nearest(runs, time, (to - from) / 100));

  const onMove = (e: PointerEvent<SVGSVGElement>) => {
    const box = e.currentTarget.getBoundingClientRect();
    setCursorTime(from + ((e.clientX - box.left) / box.width) * (to - from));
  };
  const onKey = (e: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === "Escape") return setCursorTime(null);
    if (by === undefined || runs.length === 0) return;
    e.preventDefault();
    const i = under ? runs.indexOf(under) + by : by > 0 ? 0 : runs.length - 1;
    const run = runs[Math.max(0, Math.min(runs.length - 1, i))]!;
    setCursorTime(startOf(run) + run.duration_seconds / 2);
    setSpoken(sayRun(run));
  };

  return (
    <section className="panel timeline" aria-label="Runs, by environment">
      <header className="panel-head">
        <h3>Runs, by environment</h3>
      </header>
      <div className="timeline-box" role="group" tabIndex={0} aria-label={`${runs.length} runs of ${envs.join(", ")}. Left and right arrow go from run to run.`} onKeyDown={onKey} onBlur={() => setCursorTime(null)}>
        <svg height={lane * envs.length} aria-hidden="true" onPointerMove={onMove} onPointerLeave={() => setCursorTime(null)} onDoubleClick={zoomBack}>
          {envs.map((env, i) => (
            <g key={env}>
              <g transform={`translate(-14 ${lane * (i + 0.5)})`}>
                <Glyph {...armLook(i)} />
              </g>
              <line x1="0" x2="100%" y1={lane * (i + 1) - 0.5} y2={lane * (i + 1) - 0.5} className="grid-line" />
            </g>
          ))}
          {runs.map((r) => {
            const i = envs.indexOf(r.env_id);
            const colour = `var(--${armLook(i).tone})`;
            const width = x(startOf(r) + r.duration_seconds) - x(startOf(r));
            return (
              <svg key={r.run_id} x={`${x(startOf(r))}%`} y={lane * i + 5} className="mark" data-run={r.run_id} data-status={r.status}>
                <title>{sayRun(r)}</title>
                {/* A short run is still a line; what was not counted is hollow. */}
                <rect width={`${width}%`} height={lane - 10} style={{ minWidth: 3 }} fill={r.status === "ok" ? colour : "var(--surface)"} stroke={colour} strokeWidth={r.status === "ok" ? (r === under ? 3 : 1) : 2} strokeDasharray={r.status === "ok" ? undefined : "3 2"} />
              </svg>
            );
          })}
          {time !== null && time >= from && time <= to && <line x1={`${x(time)}%`} x2={`${x(time)}%`} y1="0" y2="100%" className="cursor-line" />}
        </svg>
      </div>
      <p className="hidden" aria-live="polite">
        {spoken}
      </p>
      <div className="plot-legend">
        {envs.map((env, i) => (
          <ArmName key={env} name={env} index={i} />
        ))}
        {runs.some((r) => r.status !== "ok") && (
          <span>
            <i className="mark-key mark-hollow" /> failed or not counted
          </span>
        )}
      </div>
      <p className="note" data-under={under?.run_id ?? ""}>
        {under ? sayRun(under) : "Move the cursor over a run to see its name here. Drag in a chart below to zoom in; double click to zoom out."}
      </p>
    </section>
  );
}

function startOf(r: ResultRun): number {
  return Date.parse(r.started_at) / 1000;
}

/** The closest run within reach: many are shorter than a pixel. */
function nearest(runs: ResultRun[], time: number, reach: number): ResultRun | undefined {
  const away = (r: ResultRun) => Math.min(Math.abs(startOf(r) - time), Math.abs(startOf(r) + r.duration_seconds - time));
  return runs.filter((r) => away(r) <= reach).toSorted((a, b) => away(a) - away(b))[0];
}

function sayRun(r: ResultRun): string {
  const first = r.metrics?.find((m) => m.value !== null);
  const status = r.status === "ok" ? "" : `, ${r.status}: ${r.reason ?? "no reason given"}`;
  return `${r.run_id}: ${r.env_id}, pair ${r.pair + 1}, at ${formatMoment(startOf(r), 0)} for ${formatMeasure(r.duration_seconds, "seconds")}${first ? `, ${first.name} ${rawMeasure(first.value, "")}` : ""}${status}`;
}
