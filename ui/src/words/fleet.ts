// Machines in words.
import type { FleetHealth, FleetPage, FleetRow } from "../api/types";
import { formatSince } from "../format/time";
import { teeName } from "../frame/tee-badge";
import type { MachineName } from "../state/place";
import { count, type Verdict } from "./verdict";

/** Whether there is a choice of machines. */
export function several(f: FleetPage | null): boolean {
  return (f?.all ?? 0) > 1;
}

/** A machine in the address of the page. */
export function machineOf(r: Pick<FleetRow, "own" | "job" | "instance">): MachineName | null {
  return r.own ? null : { job: r.job ?? "", instance: r.instance ?? "" };
}

/** Its host name, with its instance if that says more. */
export function nameOf(r: Pick<FleetRow, "name" | "instance">): string {
  return r.name === r.instance ? r.name : `${r.name} (${r.instance})`;
}

export const healthWords: Record<FleetHealth, string> = { good: "no problem", unknown: "not checked yet", warning: "warning", critical: "critical", gone: "no answer" };

export const healths = Object.keys(healthWords).reverse() as FleetHealth[];

/** "sev-snp guest" as its makers write it. */
export function teeWords(tee: string): string {
  const plain: Record<string, string> = { none: "no TEE", unknown: "TEE unknown", inactive: "TEE not active" };
  if (plain[tee]) return plain[tee];
  const [name = "", role = ""] = tee.split(" ");
  return `${teeName(name)} ${role}`.trim();
}

/** The sentence above the list: how many machines have a problem, and how many nobody can judge. */
export function fleetVerdict(f: FleetPage): Verdict {
  const sum = (h: FleetHealth) => (f.kinds ?? []).reduce((n, k) => n + k[h], 0);
  const [critical, bad, gone, unknown] = [sum("critical"), sum("critical") + sum("warning"), sum("gone"), sum("unknown")];
  const parts = [
    bad > 0 && `${bad} of ${count(f.all, "machine")} ${bad === 1 ? "has" : "have"} a problem`,
    gone > 0 && `${bad > 0 ? gone : `${gone} of ${count(f.all, "machine")}`} ${gone === 1 ? "does" : "do"} not answer`,
    unknown > 0 && `${bad + gone > 0 ? unknown : `${unknown} of ${count(f.all, "machine")}`} ${unknown === 1 ? "is" : "are"} not checked yet`,
  ].filter((p) => p !== false);
  const level = critical > 0 ? "critical" : bad + gone > 0 ? "warning" : unknown > 0 ? "unknown" : "good";
  const headline = parts.length === 0 ? (f.all === 1 ? "No problem on the only machine." : `No problem on any of ${f.all} machines.`) : `${parts.join("; ")}.`;
  return { level, headline, detail: `The list was made at ${formatSince(f.at)}. Machines without a reading for a day are removed from the list.` };
}
