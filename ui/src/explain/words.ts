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
export const muchQueued = 0.25;

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
  if (!tree.rows?.length) return { level: "unknown", headline: `Nothing is known of the time of ${tree.subject}.`, detail };
  if (tree.unexplainedShare.value > muchUnexplained) return { level: "unknown", headline: `No cause was found for the time of ${tree.subject}, and much of it is not explained.`, detail };
  return { level: "good", headline: `${tree.subject} does its own work: no cause takes a share of its time worth acting on.`, detail };
}

/** How much time there is to explain, and how much of it is not explained. */
export function wholeOf(tree: ExplainTree): string {
  const per = tree.per as Per;
  const length = formatLength((Date.parse(tree.to) - Date.parse(tree.from)) / 1000);
  const requests = tree.requests ? `, at ${formatValue(tree.requests.value, "")} requests per second` : "";
  const whole = `In these ${length} ${tree.subject} had work for ${formatTime(tree.active, per)} (${formatRange(tree.active, "seconds")}), its threads taken together${requests}.`;
  const rest = tree.unexplainedShare;
  if (rest.high < 0) return `${whole} The rows explain more than was measured: ${formatAmount({ value: -rest.value, low: -rest.high, high: -rest.low }, "ratio")} too much.`;
  return `${whole} ${formatAmount(rest, "ratio")} of it is not explained.`;
}

/** The result of comparing two trees: more or less time, for the work of a second or request. A
 * process that waits for a CPU does less because it cannot do more: that is stated first. */
export function verdictOnBoth(before: ExplainTree, after: ExplainTree): string {
  const per = after.per;
  const who = before.subject === after.subject ? after.subject : `${after.subject}, beside ${before.subject},`;
  if ([before, after].some((t) => queueShare(t) >= muchQueued)) {
    const [b, a] = [before, after].map((t) => formatValue(queueShare(t), "ratio"));
    return `${who} waits for a CPU ${a} of its time, ${before.subject === after.subject ? "before" : "the other"} ${b}. ${changeOf(minus(withoutQueue(after), withoutQueue(before)), "Without that, it", per)}`;
  }
  return changeOf(minus(after.active, before.active), who, per);
}

/** The time of a tree minus that of waiting for a CPU. */
function withoutQueue(t: ExplainTree): ExplainAmount {
  const queued = queueOf(t);
  return queued ? minus(t.active, queued.time) : t.active;
}

function changeOf(d: ExplainAmount, who: string, per: string): string {
  if (unclear(d)) return `${who} takes about the same time per ${per}: the difference of ${formatAmount(d, "seconds")} may be none.`;
  const size = { value: Math.abs(d.value), low: Math.min(Math.abs(d.low), Math.abs(d.high)), high: Math.max(Math.abs(d.low), Math.abs(d.high)) };
  return `${who} takes ${formatAmount(size, "seconds")} ${d.value > 0 ? "more" : "less"} per ${per}.`;
}
