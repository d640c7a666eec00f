// Two explanations next to each other, in sentences.
import type { ExplainAmount, ExplainTree, Explanation } from "../api/types";
import { formatValue } from "../format/number";
import { formatAmount, minus, unclear } from "./amount";
import { queueOf, queueShare } from "./rows";

/** The result of comparing two trees: more or less time, for the work of a second or request. A
 * process that waits for a CPU does less because it cannot do more: that is stated first. */
export function verdictOnBoth(then: Explanation, now: Explanation): string {
  const [before, after] = [then.tree, now.tree];
  const per = after.per;
  const same = before.subject === after.subject;
  if (starved(then, now)) {
    const rest = changeOf(minus(withoutQueue(after), withoutQueue(before)), same ? "Without that, it" : `Without that, ${after.subject}`, per);
    return `${after.subject} waits for a CPU: ${waitingIn(after)}; ${same ? "before" : before.subject}: ${waitingIn(before)}. ${rest}`;
  }
  return changeOf(minus(after.active, before.active), same ? after.subject : `${after.subject}, compared with ${before.subject},`, per);
}

/** Waiting for a CPU is what a comparison is about. */
export function starved(then: Explanation, now: Explanation): boolean {
  return [then, now].some((e) => e.summary.starved);
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
  if (unclear(d)) return `${who} spends about the same time per ${per}: the difference of ${formatAmount(d, "seconds")} may be zero.`;
  const size = { value: Math.abs(d.value), low: Math.min(Math.abs(d.low), Math.abs(d.high)), high: Math.max(Math.abs(d.low), Math.abs(d.high)) };
  return `${who} spends ${formatAmount(size, "seconds")} ${d.value > 0 ? "more" : "less"} per ${per}.`;
}
