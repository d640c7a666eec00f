// The present effect of the budget on the sources, and how to avoid it.
import type { Source } from "../api/types";
import { formatValue } from "../format/number";
import { errorOf, roughly } from "./remarks";

export interface Loss {
  /** Names of the sources that get less than requested. */
  sources: string[];
  /** What is lost, in sentences, or that nothing is. */
  lost: string;
  /** How to get it back, "" when nothing is lost. */
  back: string;
}

/** What a budget, a share of each core, costs the sources in detail and events. */
export function lossOf(sources: Source[], budget: number): Loss {
  const on = sources.filter((s) => s.state === "available" || s.state === "degraded");
  const off = on.filter((s) => s.blind && s.reason === "budget");
  const lowered = on.filter((s) => s.level !== undefined && s.wanted !== undefined && s.level !== s.wanted);
  const sampled = on.filter((s) => !off.includes(s) && s.short);
  const errors = sampled.flatMap((s) => errorOf(s) ?? []);
  const said = [
    off.length > 0 && `${list(off.map((s) => s.name))} ${off.length === 1 ? "is" : "are"} off; ${off.length === 1 ? "its" : "their"} numbers are missing.`,
    lowered.length > 0 && `${list(lowered.map((s) => `${s.name} runs at level ${s.level} instead of ${s.wanted}`))}.`,
    sampled.length > 0 &&
      `${list(sampled.map((s) => `${s.name} counts ${roughly(s.coverage ?? 0)} of its events`))}; the numbers are scaled up${errors.length === 0 ? "" : `, with a standard error of up to ${roughly(Math.max(...errors))}`}.`,
  ].filter((x) => x !== false);
  if (said.length === 0) return { sources: [], lost: "The budget limits nothing now: every enabled source counts all its events.", back: "" };
  const lower = sampled.some((s) => (s.levels?.length ?? 0) > 1 && s.level !== s.levels?.[0]?.name);
  return {
    sources: [...new Set([...off, ...lowered, ...sampled].map((s) => s.name))],
    lost: `To stay within ${formatValue(budget, "ratio")} of each core: ${said.join(" ")}`,
    back: `Full counts return when fewer events happen. For full counts now: raise --budget, limit these sources to some processes${lower ? ", choose a lower level of detail" : ""}, or switch off another source.`,
  };
}

/** What it means that work in user space runs that many times less often than set. */
export function slowedBy(times: number): string {
  return `Scans of all threads and the rule for unusual levels run up to ${times} times less often than configured, because teescope's own work exceeds the budget.`;
}

/** "a", "a and b", "a, b and c". */
function list(items: string[]): string {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
