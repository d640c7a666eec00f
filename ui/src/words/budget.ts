// What the budget takes from the sources now, and what would bring it back.
import type { Source } from "../api/types";
import { formatValue } from "../format/number";
import { complete, roughly } from "./remarks";

export interface Loss {
  /** Names of the sources that get less than was asked for. */
  sources: string[];
  /** What is lost, in sentences; that nothing is, where nothing is. */
  lost: string;
  /** What would bring it back, "" where nothing is lost. */
  back: string;
}

/** What a budget, a share of each core, costs the sources in detail and events. */
export function lossOf(sources: Source[], budget: number): Loss {
  const on = sources.filter((s) => s.state === "available" || s.state === "degraded");
  const off = on.filter((s) => s.blind && s.reason === "budget");
  const lowered = on.filter((s) => s.level !== undefined && s.wanted !== undefined && s.level !== s.wanted);
  // What the user sampled is no loss; it varies a little around what was asked for.
  const asked = (s: Source) => (s.sample && s.sample < 1 ? 0.9 * s.sample : complete);
  const sampled = on.filter((s) => !off.includes(s) && s.coverage !== undefined && s.coverage < asked(s));
  const errors = sampled.flatMap((s) => (s.error === undefined ? [] : [s.error]));
  const said = [
    off.length > 0 && `${list(off.map((s) => s.name))} ${off.length === 1 ? "is" : "are"} off: what ${off.length === 1 ? "it" : "they"} would count is absent.`,
    lowered.length > 0 && `${list(lowered.map((s) => `${s.name} works at level ${s.level} instead of ${s.wanted}`))}.`,
    sampled.length > 0 &&
      `${list(sampled.map((s) => `${s.name} counts ${roughly(s.coverage ?? 0)} of its events`))}; the numbers are scaled to all events${errors.length === 0 ? "" : `, with a standard error of up to ${roughly(Math.max(...errors))}`}.`,
  ].filter((x) => x !== false);
  if (said.length === 0) return { sources: [], lost: "The budget takes nothing away: every source that is on counts all that it was asked to.", back: "" };
  const lower = sampled.some((s) => (s.levels?.length ?? 0) > 1 && s.level !== s.levels?.[0]?.name);
  return {
    sources: [...new Set([...off, ...lowered, ...sampled].map((s) => s.name))],
    lost: `To keep ${formatValue(budget, "ratio")} of each core: ${said.join(" ")}`,
    back: `It comes back by itself when fewer events happen. At once: start the monitor with a larger --budget, narrow these sources to the processes that matter${lower ? ", choose a lower level of detail" : ""}, or switch off another source.`,
  };
}

/** "a", "a and b", "a, b and c". */
function list(items: string[]): string {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
