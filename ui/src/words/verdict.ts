// The sentence on top of the page: what is wrong, or that nothing is, and the number of checks
// behind it.
import { isOwn, problemsOf, severityOf } from "./problem";
import type { FindingsRecord, FindingsRuleStat, Findings, Overhead } from "../api/types";
import { formatValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";

export interface Verdict {
  level: "good" | "info" | "warning" | "critical" | "unknown";
  headline: string;
  /** What the headline leaves open. */
  detail: string;
  /** The finding that the headline is about. */
  finding?: string;
}

const order = { critical: 0, warning: 1, info: 2 };

/** Open findings, the worst first, then the longest standing. */
export function openFindings(f: Findings | null): FindingsRecord[] {
  return (f?.findings ?? [])
    .filter((r) => r.state === "open")
    .sort((a, b) => order[a.severity] - order[b.severity] || a.since.localeCompare(b.since));
}

/** Seconds after a monitor's start in which its youth explains a missing answer. */
export const young = 60;

/** "The monitor started 20 s ago"; "" once it has run long enough. */
export function youth(started: number | null, now: number): string {
  return started !== null && now - started < young ? `The monitor started ${formatLength(Math.max(1, now - started))} ago; the first answers take a minute.` : "";
}

/** How many of the checks have an answer. */
export function checksText(rules: FindingsRuleStat[]): string {
  const blind = rules.filter((r) => r.answer === "cannot tell").length;
  return `${rules.length - blind} of ${count(rules.length, "check")} active${blind === 0 ? "" : `; ${blind} ${blind === 1 ? "lacks" : "lack"} data here`}`;
}

export function verdictOf(findings: Findings | null, overhead: Overhead | null, processes: number | null, now: Date, started?: string): Verdict {
  if (!findings) return { level: "unknown", headline: "Loading the findings.", detail: "" };
  const rules = findings.rules ?? [];
  const blind = rules.filter((r) => r.answer === "cannot tell");
  const problems = problemsOf(findings).filter((p) => !p.lead.ended);
  const watching = watchLine(overhead, processes);
  const doubt = blind.length === 0 ? "" : `${checksText(rules)}.`;
  const worst = problems[0];
  if (worst) {
    const since = `since ${formatSince(worst.lead.since, now)}`;
    const headline = problems.length === 1 ? `1 problem: ${worst.title} (${since})` : `${problems.length} problems, the worst: ${worst.title} (${since})`;
    return { level: severityOf(worst) === "critical" ? "critical" : "warning", headline, detail: [doubt, watching].filter(Boolean).join(" "), finding: worst.lead.id };
  }
  const age = (now.getTime() - Date.parse(started ?? "")) / 1000;
  if (rules.length === 0 || blind.length === rules.length) {
    const why = blind.find((r) => r.reason)?.reason;
    const early = youth(Number.isNaN(age) ? null : 0, age);
    return {
      level: "unknown",
      headline: early || "Not enough data yet to tell whether anything is wrong.",
      detail: [early ? "" : rules.length === 0 ? "No check has run so far." : `None of the ${rules.length} checks has an answer${why ? `, for example: ${why.replace(/\.$/, "")}` : ""}.`, watching].filter(Boolean).join(" "),
    };
  }
  const longest = Math.min(...[Math.max(...rules.map((r) => r.windows[0])), age].filter((s) => s >= 0));
  const ended = (findings.findings ?? []).filter((r) => r.until && r.severity !== "info" && !isOwn(r) && now.getTime() - Date.parse(r.until) < longest * 1000);
  return {
    level: "good",
    headline: ended.length > 0 ? `Nothing wrong now; ${count(ended.length, "problem")} ended in the last ${formatLength(longest)}.` : `Nothing wrong in the last ${formatLength(longest)}.`,
    detail: [doubt, watching].filter(Boolean).join(" "),
  };
}

/** The cost of monitoring in cores, from the known parts. Answers to open pages end with them, and
 * are not included. */
export function costOf(o: Overhead | null): number | null {
  return o?.used ?? null;
}

function watchLine(o: Overhead | null, processes: number | null): string {
  const cost = costOf(o);
  if (processes === null) return cost === null ? "" : `Watching at a cost of ${formatValue(cost, "ratio")} of one core.`;
  const what = `Watching ${processes} process ${processes === 1 ? "name" : "names"}`;
  return cost === null ? `${what}.` : `${what} at a cost of ${formatValue(cost, "ratio")} of one core.`;
}

/** "1 check", "3 checks". */
export function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}
