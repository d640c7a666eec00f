// The result of an explanation, in sentences.
import type { ExplainAmount, ExplainTree, Explanation } from "../api/types";
import { formatValue } from "../format/number";
import { formatLength } from "../format/time";
import type { Per } from "../state/place";
import type { Verdict } from "../words/verdict";
import { formatAmount, formatRange, formatTime, minus, unclear } from "./amount";
import { queueOf, queueShare } from "./rows";

/** The smallest unexplained share that is worth a warning. */
export const muchUnexplained = 0.2;

/** The share from which waiting for a CPU is stated first, as in causes. */
const muchQueued = 0.25;

/** The sentence above the tree: the largest cause, or that there is none. */
export function verdictOn(e: Explanation): Verdict {
  const { tree } = e;
  const detail = wholeOf(tree);
  const first = e.causes?.[0];
  if (first) {
    const worst = (e.findings ?? []).map((f) => f.severity);
    const level = worst.includes("critical") ? "critical" : worst.includes("warning") ? "warning" : "info";
    return { level, headline: first.title, detail };
  }
  if (!tree.rows?.length) return { level: "unknown", headline: `No data on where ${tree.subject} spends its time.`, detail };
  if (tree.unexplainedShare.value > muchUnexplained) return { level: "unknown", headline: `No cause found for ${tree.subject}, and much of its time is not explained.`, detail };
  return { level: "good", headline: `${tree.subject} does its own work: no cause costs enough of its time to act on.`, detail };
}

/** How much time there is to explain, and how much of it is not explained. */
export function wholeOf(tree: ExplainTree): string {
  const per = tree.per as Per;
  const length = formatLength((Date.parse(tree.to) - Date.parse(tree.from)) / 1000);
  const requests = tree.requests ? `, at ${formatValue(tree.requests.value, "")} requests per second` : "";
  const whole = `In these ${length} ${tree.subject} had work for ${formatTime(tree.active, per)} (${formatRange(tree.active, "seconds")}), all its threads together${requests}.`;
  const rest = tree.unexplainedShare;
  if (rest.high < 0) return `${whole} The rows explain more than was measured: ${formatAmount({ value: -rest.value, low: -rest.high, high: -rest.low }, "ratio")} too much.`;
  return `${whole} ${formatAmount(rest, "ratio")} of it is not explained.`;
}

/** The result of comparing two trees: more or less time, for the work of a second or request. A
 * process that waits for a CPU does less because it cannot do more: that is stated first. */
export function verdictOnBoth(before: ExplainTree, after: ExplainTree): string {
  const per = after.per;
  const same = before.subject === after.subject;
  if (starved(before, after)) {
    const rest = changeOf(minus(withoutQueue(after), withoutQueue(before)), same ? "Without that, it" : `Without that, ${after.subject}`, per);
    return `${after.subject} waits for a CPU: ${waitingIn(after)}; ${same ? "before" : before.subject}: ${waitingIn(before)}. ${rest}`;
  }
  return changeOf(minus(after.active, before.active), same ? after.subject : `${after.subject}, compared with ${before.subject},`, per);
}

/** Waiting for a CPU is what a comparison is about. */
export function starved(before: ExplainTree, after: ExplainTree): boolean {
  return [before, after].some((t) => queueShare(t) >= muchQueued);
}

/** Waiting for a CPU on both sides of a comparison, also if it is little or unknown: a process that
 * waits does less work in its time. */
export function waitingOfBoth(before: ExplainTree, after: ExplainTree, sides: [string, string]): string {
  const [a, b] = sides.map((s) => (s === "Before" || s === "After" ? s.toLowerCase() : s));
  return `Waiting for a CPU: ${a} ${waitingIn(before)}, ${b} ${waitingIn(after)}.`;
}

/** How long a process waits for a CPU: a tree without the row has a bound, or did not measure it. */
function waitingIn(t: ExplainTree): string {
  const most = Math.min(1, (t.unseen?.wait.high ?? 0) / t.active.value);
  const share = queueOf(t) ? formatValue(queueShare(t), "ratio") : most > 0 ? `at most ${formatValue(most, "ratio")}` : "";
  return share === "" ? "not measured" : `${share} of its time`;
}

/** The time of a tree minus that of waiting for a CPU. */
function withoutQueue(t: ExplainTree): ExplainAmount {
  const queued = queueOf(t);
  return queued ? minus(t.active, queued.time) : t.active;
}

function changeOf(d: ExplainAmount, who: string, per: string): string {
  if (unclear(d)) return `${who} spends about the same time per ${per}: the difference of ${formatAmount(d, "seconds")} may be none.`;
  const size = { value: Math.abs(d.value), low: Math.min(Math.abs(d.low), Math.abs(d.high)), high: Math.max(Math.abs(d.low), Math.abs(d.high)) };
  return `${who} spends ${formatAmount(size, "seconds")} ${d.value > 0 ? "more" : "less"} per ${per}.`;
}
