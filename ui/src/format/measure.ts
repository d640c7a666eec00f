// Values of benchmark documents. Their metrics declare the unit as a word
// ("seconds", "requests_per_second"); the words and digits are those of the
// reports that `teescope report` writes.
import { formatValue, type Unit } from "./number";

const units: Record<string, Unit> = { seconds: "seconds", bytes: "bytes", bytes_per_second: "bytes/s", ratio: "ratio" };
const symbols: Record<string, string> = { hertz: "Hz", joules: "J" };

/** "12.3 ms", "41.2 k requests/s"; a missing value is "missing", never 0. */
export function formatMeasure(v: number | null | undefined, unit: string): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return "missing";
  const known = units[unit];
  if (known) return formatValue(v, known);
  const digits = formatValue(v, "");
  const symbol = symbols[unit];
  if (symbol) return /[a-zA-Z]$/.test(digits) ? digits + symbol : `${digits} ${symbol}`;
  return `${digits} ${unitWords(unit)}`.trim();
}

/** The raw value with its unit, for a title. */
export function rawMeasure(v: number | null | undefined, unit: string): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return "no value";
  return `${v} ${unit === "ratio" ? "as a ratio" : spaced(unit === "1" ? "" : unit)}`.trim();
}

/** A unit without a symbol, as words: "requests/s"; "" for the others. */
export function unitWords(unit: string): string {
  if (unit === "" || unit === "1" || unit in units || unit in symbols) return "";
  return unit.endsWith("_per_second") ? `${spaced(unit.slice(0, -"_per_second".length))}/s` : spaced(unit);
}

/** A ratio as a factor: 1.034x, 3.12x, 24.5x. Near 1 the third decimal is a part
 * of the difference, which has three digits at most. */
export function formatTimes(v: number): string {
  const a = Math.abs(v);
  if (a < 2) return `${v.toFixed(3)}x`;
  if (a < 10) return `${v.toFixed(2)}x`;
  return `${a < 100 ? v.toFixed(1) : Number(v.toPrecision(3))}x`;
}

/** A ratio as a change: +3.4 %, −12 %. */
export function formatChange(ratio: number): string {
  const s = formatValue(ratio - 1, "ratio");
  if (s === "0 %" || s === "−0 %") return "±0 %";
  return s.startsWith("−") ? s : `+${s}`;
}

/** A metric's name for people: without its unit, which the value says. */
export function labelOf(metric: string, unit: string): string {
  const short = unit !== "" && metric.endsWith(`_${unit}`) ? metric.slice(0, -unit.length - 1) : metric;
  return spaced(short === "" ? metric : short);
}

export function spaced(name: string): string {
  return name.replaceAll("_", " ");
}
