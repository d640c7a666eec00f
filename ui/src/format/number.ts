// Numbers as a person reads them: at most three significant digits with an SI or
// IEC prefix, exactly as internal/metric/number.go prints them in reports. The
// cases of internal/metric/testdata/numbers.json test both printers. The raw value
// goes into a title.

/** The unit of a chart. Values are in base units, as in the store. */
export type Unit = "" | "1/s" | "bytes" | "bytes/s" | "seconds" | "ratio" | "cores";

const decimal = ["", "k", "M", "G", "T", "P", "E"];
const binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const fractions: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

/** Text of a value with its unit; a missing value is a dash, never 0. A unit is a
 * chart's or the word that a metric declares, such as "requests_per_second". */
export function formatValue(v: number | null | undefined, unit: string): string {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  const { stem, per } = partsOf(unit);
  switch (stem) {
    case "seconds":
      return formatSeconds(v) + per;
    case "bytes":
      return scaled(v, 1024, "B") + per;
    case "bits":
      return scaled(v, 1000, "bit") + per;
    case "seconds_per_bit":
      return `${digits(v * 1e9)} s/Gbit`;
    case "ratio":
      return `${digits(v * 100)} %${per}`;
    case "cores":
      return `${digits(v * 100)} % of a core`;
    case "hertz":
      return scaled(v, 1000, "Hz");
    case "joules":
      return scaled(v, 1000, "J") + per;
    case "":
    case "1":
      return scaled(v, 1000, "").trim() + per;
  }
  return `${scaled(v, 1000, "").trim()} ${stem.replaceAll("_", " ")}${per}`;
}

/** A unit's name without the part that makes it a rate, and that part. */
function partsOf(unit: string): { stem: string; per: "" | "/s" } {
  const stem = unit.replace(/(_per_second|\/s)$/, "");
  return { stem, per: stem === unit ? "" : "/s" };
}

/** Text at an axis: the title names the unit, so words are left out. */
export function formatTick(v: number, unit: Unit): string {
  const short: Partial<Record<Unit, Unit>> = { "1/s": "", "bytes/s": "bytes", cores: "ratio" };
  return formatValue(v, short[unit] ?? unit);
}

/** The raw value with its unit, for a title. */
export function rawValue(v: number | null | undefined, unit: Unit): string {
  if (v === null || v === undefined || Number.isNaN(v)) return "no value";
  const words: Record<Unit, string> = {
    "": "",
    "1/s": "per second",
    bytes: "bytes",
    "bytes/s": "bytes per second",
    seconds: "seconds",
    ratio: "as a ratio",
    cores: "CPU seconds per second",
  };
  return `${v} ${words[unit]}`.trim();
}

/** The words that the API uses for units of evidence, as a Unit. */
export function unitOf(word: string): Unit {
  const known: Unit[] = ["1/s", "bytes", "bytes/s", "seconds", "ratio", "cores"];
  return known.find((u) => u === word) ?? "";
}

/** A ratio as a factor, with three decimals within a tenth of 1: 1.034x, 3.12x, 24.5x. */
export function formatTimes(v: number): string {
  return `${factor(v)}x`;
}

/** A factor with its interval: 17.1x [15.6, 18.7]. */
export function formatTimesOf(v: number, low: number, high: number): string {
  return `${formatTimes(v)} [${factor(low)}, ${factor(high)}]`;
}

/** A ratio as a change: +3.4 %, −12 %. */
export function formatChange(ratio: number): string {
  const s = digits((ratio - 1) * 100);
  if (s === "0") return "±0 %";
  return `${s.startsWith("−") ? "" : "+"}${s} %`;
}

// Corrects a number by less than the printed precision: a half rounds away from zero, even if
// arithmetic left it slightly short.
const halfUp = 1 + 1e-12;

function factor(v: number): string {
  return Math.abs(v - 1) < 0.1 ? (v * halfUp).toFixed(3) : digits(v);
}

/** At most three significant digits, without an exponent between 10⁻⁶ and 10¹⁵. */
export function digits(v: number): string {
  const r = Number((v * halfUp).toPrecision(3));
  const text = Math.abs(r) >= 1e15 ? r.toExponential() : String(r);
  return text.replaceAll("-", "−");
}

// At most three digits stand before the point; 1000 to 1023 of an IEC unit have four.
function scaled(v: number, base: number, symbol: string): string {
  const prefixes = base === 1024 ? binary : decimal;
  let i = 0;
  let x = v;
  while (i < prefixes.length - 1 && Math.abs(x) >= base * 0.9995) {
    x /= base;
    i++;
  }
  const whole = Math.abs(x) >= 999.5 && Math.abs(x) < 1024;
  return `${whole ? String(Math.round(x)).replace("-", "−") : digits(x)} ${prefixes[i]}${symbol}`;
}

function formatSeconds(v: number): string {
  if (v === 0) return "0 s";
  const [scale, name] = fractions.find(([s]) => Math.abs(v) >= s * 0.9995) ?? [1e-9, "ns"];
  // The powers of ten above 1 are exact, those below are not.
  return `${digits(v * Math.round(1 / scale))} ${name}`;
}
