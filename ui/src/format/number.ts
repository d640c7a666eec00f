// Numbers as a person reads them: at most three significant digits with an SI
// or IEC prefix. The raw value goes beside it, into a title.

/** What a number counts. Values are in base units, as in the store. */
export type Unit = "" | "1/s" | "bytes" | "bytes/s" | "seconds" | "ratio" | "cores";

const decimal = ["", "k", "M", "G", "T", "P", "E"];
const binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const fractions: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

/** Text of a value with its unit; a missing value is a dash, never 0. */
export function formatValue(v: number | null | undefined, unit: Unit): string {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  switch (unit) {
    case "ratio":
      return `${three(v * 100)} %`;
    case "cores":
      return `${three(v * 100)} % of a core`;
    case "seconds":
      return formatSeconds(v);
    case "bytes":
      return scaled(v, 1024, binary, "B");
    case "bytes/s":
      return scaled(v, 1024, binary, "B/s");
    case "1/s":
      return scaled(v, 1000, decimal, "/s");
    case "":
      return scaled(v, 1000, decimal, "");
  }
}

/** Text beside an axis: the title says what is counted, so words are left out. */
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

function scaled(v: number, base: number, prefixes: string[], suffix: string): string {
  let i = 0;
  let x = v;
  // Rounding comes first: 999.7 k is 1 M, not 1000 k.
  while (i < prefixes.length - 1 && Math.max(Math.abs(x), Math.abs(Number(x.toPrecision(3)))) >= base) {
    x /= base;
    i++;
  }
  const unit = `${prefixes[i]}${suffix}`;
  const gap = unit === "" || unit === "/s" ? "" : " ";
  // Between 1000 and 1023 an IEC number has four digits; all of them count.
  const digits = Math.abs(x) >= 1000 ? String(Math.round(x)) : three(x);
  return `${digits}${gap}${unit}`;
}

function formatSeconds(v: number): string {
  if (v === 0) return "0 s";
  const [scale, name] = fractions.find(([s]) => Math.abs(v) >= s * 0.9995) ?? [1e-9, "ns"];
  return `${three(v / scale)} ${name}`;
}

function three(v: number): string {
  return String(Number(v.toPrecision(3))).replace("-", "−");
}
