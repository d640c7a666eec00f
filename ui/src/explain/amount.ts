// Estimates with their intervals: as text, and their differences.
import type { ExplainAmount } from "../api/types";
import { formatValue, type Unit } from "../format/number";

/** "41.2 %"; with its interval "41.2 % (38 % to 44.4 %)". */
export function formatAmount(a: ExplainAmount, unit: Unit, interval = true): string {
  const value = formatValue(a.value, unit);
  return interval ? `${value} (${formatRange(a, unit)})` : value;
}

/** "38 % to 44.4 %", or the one value where both ends read the same. */
export function formatRange(a: ExplainAmount, unit: Unit): string {
  // The rounding error of a subtraction is not shown: 6.7e-14 % is none.
  const tiny = Math.max(Math.abs(a.low), Math.abs(a.high)) * 1e-6;
  const [low, high] = [a.low, a.high].map((v) => formatValue(Math.abs(v) < tiny ? 0 : v, unit));
  return low === high ? low! : `${low} to ${high}`;
}

/** How often something happens: "1.2 k/s", "3.4 per request" or, of a comparison, "+16 per operation". */
export function formatRate(a: ExplainAmount, per: string): string {
  if (per === "operation") return `${formatSigned(a.value, "")} per operation`;
  return per === "second" ? formatValue(a.value, "1/s") : `${formatValue(a.value, "")} per ${per}`;
}

/** Time per second or request: "410 ms per second". */
export function formatTime(a: ExplainAmount, per: string): string {
  return `${formatValue(a.value, "seconds")} per ${per}`;
}

/** The difference of two independent estimates. Its interval comes from theirs,
 * lopsided ones included (MOVER; Zou and Donner, Statistics in Medicine 27, 2008). */
export function minus(a: ExplainAmount, b: ExplainAmount): ExplainAmount {
  const value = a.value - b.value;
  return {
    value,
    low: value - Math.hypot(a.value - a.low, b.high - b.value),
    high: value + Math.hypot(a.high - a.value, b.value - b.low),
  };
}

/** The interval contains 0. */
export function unclear(a: ExplainAmount): boolean {
  return a.low <= 0 && a.high >= 0;
}

/** A difference with its sign: "+120 ms", "−3 %". */
export function formatSigned(v: number, unit: Unit): string {
  const text = formatValue(v, unit);
  return v > 0 ? `+${text}` : text;
}
