// What the monitor's sources counted during the runs, arm beside arm.
import { useState } from "react";
import type { ResultExperiment } from "../api/types";
import { formatMeasure, rawMeasure } from "../format/measure";
import { countersOf, hostWideOf, type Counted } from "./document";
import { ArmName } from "./marks";
import { Table } from "./tables";

const first = 10;

export function Counters({ doc, kase }: { doc: ResultExperiment; kase: string }) {
  const [all, setAll] = useState(false);
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const rows = countersOf(doc, kase);
  if (rows.length === 0) return <p className="dim">The runs hold no counters: {Object.values((doc.runs ?? [])[0]?.missing ?? {})[0] ?? "none were attached"}.</p>;
  const shown = all ? rows : rows.filter((r) => r.arms.some((a) => (a.value ?? 0) > 0)).slice(0, first);
  return (
    <>
      <Table name={`Counters ${per(rows[0]!)}`} columns={["Counter", ...envs.map((env, i) => ({ key: env, head: <ArmName name={env} index={i} />, number: true }))]}>
        {shown.map((r) => (
          <tr key={`${r.name} ${r.scope}`}>
            <th scope="row">
              {r.name}
              <span className="small dim block">
                {per(r)}, {r.scope === "machine" ? "of the whole machine, including other programs" : "of the workload's processes"}
              </span>
            </th>
            <Arms row={r} envs={envs} unit="" />
          </tr>
        ))}
      </Table>
      {rows.length > shown.length && (
        <p className="note">
          {rows.length - shown.length} more counters changed less, or saw nothing.{" "}
          <button type="button" className="text-button" onClick={() => setAll(true)}>
            Show all {rows.length}
          </button>
        </p>
      )}
    </>
  );
}

/** Events of the whole machine beside those of the workload; nothing where none were counted. */
export function HostWide({ doc, kase }: { doc: ResultExperiment; kase: string }) {
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const rows = hostWideOf(doc, kase);
  if (rows.length === 0) return null;
  const name = `Host-wide, ${per(rows.find((r) => r.arms.some((a) => a.value !== null)) ?? rows[0]!)}`;
  return (
    <>
      <h3>{name}</h3>
      <p className="note">The whole machine includes everything else on it: load generator, teescope, other programs.</p>
      <Table name={name} columns={["Counter", "Of", ...envs.map((env, i) => ({ key: env, head: <ArmName name={env} index={i} />, number: true }))]}>
        {rows.map((r) => (
          <tr key={`${r.name} ${r.of}`}>
            <th scope="row">{r.name}</th>
            <td>{r.of}</td>
            <Arms row={r} envs={envs} unit={r.unit} brief />
          </tr>
        ))}
      </Table>
      {[...new Set(rows.flatMap((r) => r.arms.filter((a) => a.value === null).map((a) => `${r.name}, missing: ${a.reason}`)))].map((why) => (
        <p key={why} className="note">
          {why}
        </p>
      ))}
    </>
  );
}

/** The values of a row; brief where the reason of a missing one is said elsewhere. */
function Arms({ row, envs, unit, brief = false }: { row: Counted; envs: string[]; unit: string; brief?: boolean }) {
  return row.arms.map((a, i) => (
    <td key={envs[i]} className={a.value === null ? "num missing" : "num"} title={[rawMeasure(a.value, unit), a.reason].filter(Boolean).join("; ")}>
      {brief && a.value === null ? "missing" : armText(a, row.scope, unit)}
      {isPart(a, row.scope) && <span className="small dim block">{a.reason || "a part is seen"}</span>}
    </td>
  ));
}

function per(r: Counted): string {
  return `per ${r.per}`;
}

/** A counter that sees a part of the workload saw at least so much. */
function armText(a: Counted["arms"][number], scope: string, unit: string): string {
  if (a.value === null) return `missing: ${a.reason}`;
  return `${isPart(a, scope) ? "≥ " : ""}${formatMeasure(a.value, unit)}`;
}

/** What is counted of the whole machine holds more than the workload, not less. */
function isPart(a: Counted["arms"][number], scope: string): boolean {
  return a.value !== null && a.trust === "partial" && scope !== "machine";
}
