// The sentence on top of the page: what is wrong, or that nothing is, and what watching costs.
import type { FindingsRecord, Findings, Overhead } from "../api/types";
import { formatValue } from "../format/number";
import { formatSince } from "../format/time";

export interface Verdict {
  level: "good" | "info" | "warning" | "critical" | "unknown";
  headline: string;
  /** What the headline leaves open. */
  detail: string;
  /** The finding that the headline is about. */
  finding?: string;
}

const order = { critical: 0, warning: 1, info: 2 };

/** Open findings, the worst first, then the longest standing; those whose subject has ended come last. */
export function openFindings(f: Findings | null): FindingsRecord[] {
  return (f?.findings ?? [])
    .filter((r) => r.state === "open")
    .sort((a, b) => Number(Boolean(a.ended)) - Number(Boolean(b.ended)) || order[a.severity] - order[b.severity] || a.since.localeCompare(b.since));
}

/** What the server says of the findings, with the cost of watching. */
export function verdictOf(findings: Findings | null, overhead: Overhead | null, processes: number | null, now: Date): Verdict {
  if (!findings) return { level: "unknown", headline: "Loading the findings.", detail: "" };
  const { summary: s, problems } = findings;
  const worst = problems?.find((p) => !p.ended);
  const detail = [s.detail, watchLine(overhead, processes)].filter(Boolean).join(" ");
  return worst ? { level: s.level, headline: `${s.headline} (since ${formatSince(worst.since, now)})`, detail, finding: worst.lead } : { level: s.level, headline: s.headline, detail };
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
