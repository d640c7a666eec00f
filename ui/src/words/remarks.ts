// The limits of a chart's or table's numbers: a source that counted only part of the events, or
// none. Shown next to the numbers, in a few words and in full.
import type { Source } from "../api/types";
import { formatValue } from "../format/number";
import { because, blindReason, sentence } from "./empty";

export interface Remark {
  kind: "estimate" | "blind" | "other";
  /** A few words, for a badge. */
  short: string;
  /** The same in sentences: the present state, then that of the window. */
  text: string[];
}

/** Half the 95 % interval of an estimate with this standard error: what ± means everywhere on the page. */
export function halfInterval(error: number): number {
  return 1.96 * error;
}

/** The standard error of a source's estimates: that of the events whose number the kernel does not give is the larger. */
export function errorOf(s: Source): number | undefined {
  return s.restError ?? s.error;
}

/** "counts 24 % of events, scaled, ± 6 %", from the standard error. */
export function estimateWords(coverage: number, error: number | undefined): string {
  return `counts ${roughly(coverage)} of events, scaled${error === undefined ? "" : `, ± ${roughly(halfInterval(error))}`}`;
}

/** An estimated ratio with two digits, its real precision. */
export function roughly(ratio: number): string {
  return formatValue(Number(ratio.toPrecision(2)), "ratio");
}

/** The remarks on values of these sources, with the monitor's warnings. The present
 * state of a source only concerns a window that ends now. */
export function remarksOf(behind: Source[], warnings: string[], live: boolean): Remark[] {
  const bySource = new Map<string, Remark>();
  for (const s of live ? behind : []) {
    const who = behind.length > 1 ? `${s.name} ` : "";
    const remark = remarkNow(s, who);
    if (remark) bySource.set(s.name, remark);
  }
  const rest: Remark[] = [];
  for (const w of warnings) {
    // "source NAME was blind ..." or "source NAME counted down to ...".
    const name = /^source (\S+) /.exec(w)?.[1];
    const known = name === undefined ? undefined : bySource.get(name);
    if (known) {
      known.text.push(sentence(w));
      continue;
    }
    const remark: Remark =
      name === undefined
        ? { kind: "other", short: "a warning", text: [sentence(w)] }
        : / had no values /.test(w)
          ? { kind: "blind", short: `${name} unavailable for a time`, text: [sentence(w)] }
          : { kind: "estimate", short: `${name} partly estimated`, text: [sentence(w)] };
    if (name !== undefined) bySource.set(name, remark);
    else rest.push(remark);
  }
  return [...bySource.values(), ...rest];
}

function remarkNow(s: Source, who: string): Remark | null {
  const now = [because(`Now ${s.name}`, { reason: blindReason(s), remedy: s.remedy })];
  if (s.blind) return { kind: "blind", short: `${who}unavailable here`, text: now };
  if ((s.state === "available" || s.state === "degraded") && s.coverage !== undefined && s.estimated) {
    return { kind: "estimate", short: who + estimateWords(s.coverage, errorOf(s)), text: s.reason ? now : [] };
  }
  return null;
}
