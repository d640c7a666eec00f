// Values of benchmark documents. Their metrics declare the unit as a word
// ("seconds", "requests_per_second").
import { formatValue } from "./number";

/** "12.3 ms", "41.2 k requests/s"; a missing value is "missing", never 0. */
export function formatMeasure(v: number | null | undefined, unit: string): string {
  return v === null || v === undefined || !Number.isFinite(v) ? "missing" : formatValue(v, unit);
}

/** The raw value with its unit, for a title. */
export function rawMeasure(v: number | null | undefined, unit: string): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return "no value";
  return `${v} ${unit === "ratio" ? "as a ratio" : spaced(unit === "1" ? "" : unit)}`.trim();
}

/** A metric's name for people: without its unit, which the value says. */
export function labelOf(metric: string, unit: string): string {
  const short = unit !== "" && metric.endsWith(`_${unit}`) ? metric.slice(0, -unit.length - 1) : metric;
  return spaced(short === "" ? metric : short);
}

export function spaced(name: string): string {
  return name.replaceAll("_", " ");
}
