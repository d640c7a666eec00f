// The sentence on top of the page: what is wrong, or that nothing is, and how many
// checks that rests on.
import type { FindingsRecord, Findings, Overhead } from "../api/types";
import { formatValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";

export interface Verdict {
  level: "good" | "info" | "warning" | "critical" | "unknown";
  headline: string;
  /** What the headline leaves open. */
  detail: string;
}

const order = { critical: 0, warning: 1, info: 2 };

/** Open findings, the worst first, then the longest standing. */
export function openFindings(f: Findings | null): FindingsRecord[] {
  return (f?.findings ?? [])
    .filter((r) => r.state === "open")
    .sort((a, b) => order[a.severity] - order[b.severity] || a.since.localeCompare(b.since));
}

export function verdictOf(findings: Findings | null, overhead: Overhead | null, processes: number | null, now: Date, started?: string): Verdict {
  if (!findings) return { level: "unknown", headline: "Asking the monitor.", detail: "" };
  const rules = findings.rules ?? [];
  const blind = rules.filter((r) => r.answer === "cannot tell");
  const open = openFindings(findings);
  const problems = open.filter((r) => r.severity !== "info");
  const watching = watchLine(overhead, processes);
  const doubt = blind.length === 0 ? "" : `${rules.length - blind.length} of ${count(rules.length, "check")} ran; ${blind.length === 1 ? "1 needs" : `${blind.length} need`} data that is not here.`;
  const worst = problems[0];
  if (worst) {
    const since = `since ${formatSince(worst.since, now)}`;
    const title = worst.title.replace(/\.$/, "");
    const headline = problems.length === 1 ? `1 problem: ${title} (${since})` : `${problems.length} problems, the worst: ${title} (${since})`;
    return { level: worst.severity === "critical" ? "critical" : "warning", headline, detail: [doubt, watching].filter(Boolean).join(" ") };
  }
  if (rules.length === 0 || blind.length === rules.length) {
    const why = blind.find((r) => r.reason)?.reason;
    return {
      level: "unknown",
      headline: "Not enough data yet to tell whether anything is wrong.",
      detail: [rules.length === 0 ? "No check has run so far." : `None of the ${rules.length} checks has an answer${why ? `, for example: ${why.replace(/\.$/, "")}` : ""}.`, watching].filter(Boolean).join(" "),
    };
  }
  const age = (now.getTime() - Date.parse(started ?? "")) / 1000;
  const longest = Math.min(...[Math.max(...rules.map((r) => r.windows[0])), age].filter((s) => s >= 0));
  const ended = (findings.findings ?? []).filter((r) => r.until && r.severity !== "info" && now.getTime() - Date.parse(r.until) < longest * 1000);
  const notes = open.length > 0 ? `${count(open.length, "note")} below.` : "";
  return {
    level: open.length > 0 ? "info" : "good",
    headline: ended.length > 0 ? `Nothing wrong now; ${count(ended.length, "problem")} ended in the last ${formatLength(longest)}.` : `Nothing wrong in the last ${formatLength(longest)}.`,
    detail: [notes, doubt, watching].filter(Boolean).join(" "),
  };
}

/** The cost of the monitor in cores, of the parts that are known. */
export function costOf(o: Overhead | null): number | null {
  const parts = Object.values(o?.cpu ?? {});
  return parts.length === 0 ? null : parts.reduce((a, b) => a + b, 0);
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
