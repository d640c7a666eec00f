// The open problems as the server groups them, with their findings.
import type { Findings, FindingsProblem, FindingsRecord } from "../api/types";

export interface Problem extends Omit<FindingsProblem, "lead" | "effects"> {
  lead: FindingsRecord;
  effects: FindingsRecord[];
}

/** The problems of the machine and its processes that are open now, the worst first. */
export function problemsOf(f: Findings | null): Problem[] {
  const known = new Map((f?.findings ?? []).map((r) => [r.id, r]));
  return (f?.problems ?? []).flatMap((p) => {
    const lead = known.get(p.lead);
    return lead ? { ...p, lead, effects: (p.effects ?? []).flatMap((id) => known.get(id) ?? []) } : [];
  });
}

/** The subject of a finding without its machine, which rules name where there are several. */
export function subjectOf(f: Pick<FindingsRecord, "subject" | "instance">): string {
  if (f.subject === `machine ${f.instance}`) return "machine";
  const on = ` on ${f.instance}`;
  return f.instance && f.subject.endsWith(on) ? f.subject.slice(0, -on.length) : f.subject;
}

/** The subject of a finding, with the unit that it is about if it is about one. */
export function whomOf(f: Pick<FindingsRecord, "subject" | "unit">): string {
  return f.unit ? `${f.subject} of ${f.unit}` : f.subject;
}

/** It is about the monitor and its data. */
export function isOwn(f: FindingsRecord): boolean {
  return f.role === "monitor";
}
