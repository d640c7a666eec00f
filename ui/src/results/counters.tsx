// What the monitor's sources counted during the runs, arm beside arm. Each counter
// has a scale of its own: their magnitudes have nothing to do with each other.
import { useState } from "react";
import type { ResultExperiment } from "../api/types";
import { formatMeasure, rawMeasure } from "../format/measure";
import { countersOf, type Counted } from "./document";
import { armLook, ArmName, PlotTable } from "./marks";

const first = 10;

export function Counters({ doc, kase }: { doc: ResultExperiment; kase: string }) {
  const [all, setAll] = useState(false);
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const rows = countersOf(doc, kase);
  if (rows.length === 0) return <p className="dim">The runs hold no counters: {Object.values((doc.runs ?? [])[0]?.missing ?? {})[0] ?? "none were attached"}.</p>;
  const shown = all ? rows : rows.filter((r) => r.arms.some((a) => (a.value ?? 0) > 0)).slice(0, first);
  return (
    <>
      <PlotTable
        caption={`Counters ${per(rows[0]!)}`}
        heads={["Counter", "By environment"]}
        axis={null}
        rows={shown.map((r) => {
          const top = Math.max(...r.arms.map((a) => a.value ?? 0));
          return {
            key: `${r.name} ${r.scope}`,
            label: (
              <>
                {r.name}
                <span className="small dim block">
                  {per(r)}, {r.scope === "machine" ? "of the whole machine, others included" : "of the workload's processes"}
                </span>
              </>
            ),
            height: 20 * r.arms.length + 6,
            plot: r.arms.map((a, i) => (
              <Bar key={envs[i]} arm={a} i={i} share={a.value !== null && top > 0 ? a.value / top : 0} title={`${envs[i]}: ${rawMeasure(a.value, "")}`} />
            )),
            figure: r.arms.map((a, i) => (
              <span key={envs[i]} className="counter-line" title={[rawMeasure(a.value, ""), a.reason].filter(Boolean).join("; ")}>
                <ArmName name={envs[i]!} index={i} />
                <span className={a.value === null ? "small dim" : undefined}>
                  {armText(a, r.scope)}
                  {isPart(a, r.scope) && <span className="small dim block">{a.reason || "a part is seen"}</span>}
                </span>
              </span>
            )),
          };
        })}
      />
      {rows.length > shown.length && (
        <p className="note">
          {rows.length - shown.length} more counters moved less, or saw nothing.{" "}
          <button type="button" className="text-button" onClick={() => setAll(true)}>
            Show all {rows.length}
          </button>
        </p>
      )}
    </>
  );
}

function per(r: Counted): string {
  return `per ${r.per}`;
}

/** A counter that sees a part of the workload saw at least so much. */
function armText(a: Counted["arms"][number], scope: string): string {
  if (a.value === null) return `missing: ${a.reason}`;
  return `${isPart(a, scope) ? "≥ " : ""}${formatMeasure(a.value, "")}`;
}

/** What is counted of the whole machine holds more than the workload, not less. */
function isPart(a: Counted["arms"][number], scope: string): boolean {
  return a.value !== null && a.trust === "partial" && scope !== "machine";
}

/** An outline where there may be more than was seen. */
function Bar({ arm, i, share, title }: { arm: Counted["arms"][number]; i: number; share: number; title: string }) {
  if (arm.value === null || arm.value === 0) return null;
  const colour = `var(--${armLook(i).tone})`;
  const partial = arm.trust === "partial";
  return (
    <rect x="0" width={`${Math.max(0.4, 99 * share)}%`} y={6 + 20 * i} height="12" fill={partial ? "none" : colour} stroke={colour} strokeWidth={partial ? 2 : 0}>
      <title>{title}</title>
    </rect>
  );
}
