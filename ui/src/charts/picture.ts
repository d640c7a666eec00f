// A chart as a self-contained picture: title, machine, window, time zone, error of estimates, and
// every line by name.
import { formatTick, formatValue, type Unit } from "../format/number";
import { others } from "../query/promql";
import { stacked, type Series } from "../query/series";
import { spacings, stepOf } from "./axis";
import type { Band } from "./band";
import type { Stroke } from "./palette";

export interface Picture {
  svg: string;
  png: () => Promise<Blob>;
}

interface Drawn {
  title: string;
  machine: string;
  grid: number[];
  /** The ends of the axis of time. */
  from: number;
  to: number;
  series: Series[];
  strokes: Map<string, Stroke>;
  /** The number of names in the line of the others. */
  folded: number;
  unit: Unit;
  /** Lines stand on top of each other. */
  stack: boolean;
  band: Band | null;
  warnings: string[];
  /** The value of a CSS variable: a picture has no style sheet. */
  token: (name: string) => string;
}

const width = 960;
const [left, right, top] = [72, 24, 62];
const plotHeight = 320;

export function draw(d: Drawn): Picture {
  const svg = svgOf(d);
  return { svg: svg.text, png: () => pngOf(svg.text, width, svg.height) };
}

/** The drawing, without interactive elements. */
export function svgOf(d: Drawn): { text: string; height: number } {
  const { grid, unit, token } = d;
  // Edges of a stack are sums, which have no known interval.
  const band = d.stack ? null : d.band;
  const lines = d.stack ? stacked(d.series.map((s) => s.values)) : d.series.map((s) => s.values);
  const series = d.series.map((s, i) => ({ ...s, values: lines[i]!, last: s.values.findLast((v) => v !== null) ?? null }));
  const out: string[] = [];
  const upper = (s: Series) => s.values.map((v, i) => (v === null ? -Infinity : v * (1 + (band?.half[i] ?? 0))));
  const values = series.flatMap((s) => s.values).filter((v) => v !== null);
  const most = Math.max(0, ...series.flatMap(upper)) || 1;
  const least = Math.min(0, ...values);
  const step = stepOf((most - least) / 5, unit);
  const [low, high] = [Math.floor(least / step) * step, Math.ceil((most * 1.02) / step) * step];
  const x = (t: number) => left + ((t - d.from) / (d.to - d.from || 1)) * (width - left - right);
  const y = (v: number) => top + plotHeight - ((v - low) / (high - low)) * plotHeight;
  const text = (at: [number, number], size: number, words: string, more = "") => out.push(`<text x="${n(at[0])}" y="${n(at[1])}" font-size="${size}" fill="${token("--text")}" ${more}>${escape(words)}</text>`);
  const dim = `fill-opacity="0.7"`;

  text([left - 52, 26], 17, d.title, `font-weight="600"`);
  text([left - 52, 46], 12, `${d.machine}, ${windowWords(d.from, d.to)}${bandWords(band, grid)}`, dim);
  for (let v = low; v <= high + step / 2; v += step) {
    out.push(`<line x1="${left}" x2="${width - right}" y1="${n(y(v))}" y2="${n(y(v))}" stroke="${token("--line")}"/>`);
    text([left - 8, y(v) + 4], 11, formatTick(Math.abs(v) < step / 1e6 ? 0 : v, unit), `text-anchor="end" ${dim}`);
  }
  for (const t of timeTicks(d.from, d.to)) {
    out.push(`<line x1="${n(x(t))}" x2="${n(x(t))}" y1="${top}" y2="${top + plotHeight}" stroke="${token("--line")}"/>`);
    text([x(t), top + plotHeight + 18], 11, clock(t, d.to - d.from), `text-anchor="middle" ${dim}`);
  }
  series.forEach((s, k) => {
    const stroke = d.strokes.get(s.name);
    const colour = token(stroke?.colour ?? "--series-rest");
    for (const run of runs(s.values, grid, d.from)) {
      const line = run.map((i) => `${n(x(grid[i]!))} ${n(y(s.values[i]!))}`);
      const half = (i: number) => band?.half[i] ?? 0;
      if (run.some((i) => half(i) > 0)) {
        const edge = (i: number, side: number) => `${n(x(grid[i]!))} ${n(y(Math.max(low, s.values[i]! * (1 + side * half(i)))))}`;
        out.push(`<path d="M${run.map((i) => edge(i, 1)).join("L")}L${run.toReversed().map((i) => edge(i, -1)).join("L")}Z" fill="${colour}" fill-opacity="0.18"/>`);
      }
      if (d.stack) {
        const below = (i: number) => (k === 0 ? low : (lines[k - 1]![i] ?? low));
        out.push(`<path d="M${line.join("L")}L${run.toReversed().map((i) => `${n(x(grid[i]!))} ${n(y(below(i)))}`).join("L")}Z" fill="${colour}" fill-opacity="0.35"/>`);
      }
      const dash = stroke?.dash.length ? ` stroke-dasharray="${stroke.dash.join(" ")}"` : "";
      if (run.length === 1) out.push(`<circle cx="${line[0]!.split(" ")[0]}" cy="${line[0]!.split(" ")[1]}" r="2" fill="${colour}"/>`);
      else out.push(`<path d="M${line.join("L")}" fill="none" stroke="${colour}" stroke-width="1.8"${dash}/>`);
    }
  });
  // Names below, in columns.
  const columns = 3;
  const begin = top + plotHeight + 44;
  series.forEach((s, i) => {
    const at: [number, number] = [left + (i % columns) * ((width - left - right) / columns), begin + Math.floor(i / columns) * 20];
    const stroke = d.strokes.get(s.name);
    out.push(`<line x1="${n(at[0])}" x2="${n(at[0] + 18)}" y1="${n(at[1] - 4)}" y2="${n(at[1] - 4)}" stroke="${token(stroke?.colour ?? "--series-rest")}" stroke-width="2.5"${stroke?.dash.length ? ` stroke-dasharray="${stroke.dash.join(" ")}"` : ""}/>`);
    const name = s.name === others ? `${d.folded} others` : s.name;
    text([at[0] + 24, at[1]], 12, `${name}: ${formatValue(s.last, unit)}`);
  });
  let height = begin + Math.ceil(series.length / columns) * 20;
  for (const w of d.warnings) {
    text([left - 52, height + 4], 11, w.length > 150 ? `${w.slice(0, 149)}…` : w, dim);
    height += 18;
  }
  height += 8;
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif"><title>${escape(d.title)}</title><rect width="100%" height="100%" fill="${token("--surface")}"/>`;
  return { text: `${head}${out.join("")}</svg>`, height };
}

/** The indices of values without a gap between them, on the axis. */
function runs(values: (number | null)[], grid: number[], from: number): number[][] {
  const out: number[][] = [];
  values.forEach((v, i) => {
    if (v === null || grid[i]! < from) return;
    const last = out.at(-1);
    if (last?.at(-1) === i - 1) last.push(i);
    else out.push([i]);
  });
  return out;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

function clock(t: number, span: number): string {
  const time: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", ...(span < 600 ? { second: "2-digit" } : {}) };
  return new Intl.DateTimeFormat("en-GB", span > 86400 ? { day: "numeric", month: "short", ...time } : time).format(new Date(t * 1000));
}

/** "23 Nov 2026, 14:02:05 to 14:17:05 (UTC+01:00, Europe/Paris)". */
export function windowWords(from: number, to: number): string {
  const [a, b] = [new Date(from * 1000), new Date(to * 1000)];
  const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const ends = day.format(a) === day.format(b) ? `${day.format(a)}, ${time.format(a)} to ${time.format(b)}` : `${day.format(a)}, ${time.format(a)} to ${day.format(b)}, ${time.format(b)}`;
  const minutes = -b.getTimezoneOffset();
  const two = (v: number) => String(Math.floor(v)).padStart(2, "0");
  const zone = minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${ends} (${name === zone ? zone : `${zone}, ${name}`})`;
}

function bandWords(band: Band | null, grid: number[]): string {
  const widest = Math.max(0, ...(band?.half ?? []).map((h) => h ?? 0));
  return band && widest > 0 && grid.length > 0 ? `, estimates up to ± ${formatValue(widest, "ratio")} (95 %)` : "";
}

/** Round times in the reader's zone, eight at most. */
function timeTicks(from: number, to: number): number[] {
  const every = spacings.find((s) => (to - from) / s <= 8) ?? 7776000;
  const shift = new Date(from * 1000).getTimezoneOffset() * 60;
  const out: number[] = [];
  for (let t = Math.ceil((from - shift) / every) * every + shift; t <= to; t += every) out.push(t);
  return out;
}

function n(v: number): string {
  return String(Math.round(v * 10) / 10);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** The drawing in pixels, two per unit. */
async function pngOf(svg: string, w: number, h: number): Promise<Blob> {
  const image = new Image();
  // The security policy allows data: URLs for images, and the text may hold any character.
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * w, 2 * h];
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((b) => (b ? resolve(b) : reject(new Error("the browser draws no PNG"))), "image/png"));
}
