// uPlot as a component: lines over the window's grid, a cursor that all charts
// share, drag to zoom, double click to go back.
import { useEffect, useRef, type PointerEvent } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatTick, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import { stacked, type Series } from "../query/series";
import type { Span } from "../state/place";
import { zoomBack, zoomTo } from "../state/use-place";
import { powersOfTwo, rangeOf, spacings, wholeMinutes } from "./axis";
import type { Band } from "./band";
import { cursorTime, setCursorTime, subscribeCursor } from "./cursor";
import { covered, type Mark } from "./marks";
import type { Stroke } from "./palette";

export interface PlotProps {
  grid: number[];
  series: Series[];
  strokes: Map<string, Stroke>;
  unit: Unit;
  height: number;
  /** Part of the key: a chart is redrawn when the colours change. */
  scheme: "light" | "dark";
  /** The area below each line is tinted, fading downwards. */
  area: boolean;
  /** Lines are stacked, so the highest is their sum. */
  stack: boolean;
  marks: Mark[];
  /** Around each line, where values are estimates. */
  band: Band | null;
  /** The chart's name at the cursor. */
  id: string;
  /** The start of the time axis; not before the monitor's first data. */
  begin: number;
  /** The only line shown, if one is selected. */
  only: string | null;
  /** A click, not a drag, on the line of this name. */
  onPick: (name: string | null) => void;
  /** The selection made with the keyboard. */
  selection: Span | null;
}

/** The width of the value axis and of the free space on the other side, in pixels: half of the
 * widest time, which may be placed under the last point. */
export const axisWidth = 52;
export const plotPadding = 26;

export function Plot({ grid, series, strokes, unit, height, scheme, area, stack, marks, band: given, id, begin, only, onPick, selection }: PlotProps) {
  // Edges of a stack are sums, which have no known interval.
  const band = stack ? null : given;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marked = useRef(marks);
  marked.current = marks;
  const banded = useRef(band);
  banded.current = band;
  const pressedAt = useRef(0);
  const selected = useRef(false);
  // As text it stays equal while the names do; a name may hold any character.
  const names = JSON.stringify(series.map((s) => s.name));

  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const labels = JSON.parse(names) as string[];
    const style = getComputedStyle(document.documentElement);
    const token = (name: string) => style.getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: token("--text-dim"),
      grid: { stroke: token("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const u = new uPlot(
      {
        width: Math.max(80, el.clientWidth),
        height,
        padding: [8, plotPadding, 0, 0],
        legend: { show: false },
        scales: { x: { time: true }, y: { range: (self, min, max) => rangeOf(min, Math.max(max, highest(self, banded.current))) } },
        axes: [
          { ...axis, size: 22, space: (u) => (spanOf(u) < 240 ? 66 : 46), incrs: (u) => (spanOf(u) < 240 ? spacings : wholeMinutes), values: timeLabels },
          {
            ...axis,
            size: axisWidth,
            gap: 4,
            space: 28,
            values: (_u, ticks) => ticks.map((v) => formatTick(v, unit)),
            // Round numbers of bytes are powers of two.
            ...(unit.startsWith("bytes") ? { incrs: powersOfTwo } : {}),
          },
        ],
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          points: { size: 6 },
          bind: {
            dblclick: () => () => {
              zoomBack();
              return null;
            },
          },
        },
        hooks: {
          drawClear: [
            (self) => {
              drawMarks(self, marked.current, token);
              drawBands(self, banded.current, labels.map((name) => token(strokes.get(name)?.colour ?? "--series-rest")));
            },
          ],
          setCursor: [
            (self) => {
              // Only the chart under the pointer has an event; the others follow it.
              if (!self.cursor.event) return;
              const i = self.cursor.idx;
              setCursorTime(i === null || i === undefined || (self.cursor.left ?? -1) < 0 ? null : (self.data[0][i] ?? null), id);
            },
          ],
          setSelect: [
            (self) => {
              const { left, width } = self.select;
              // A selection with the keyboard has no event; it waits for Enter.
              if (!self.cursor.event || width < 4) return;
              const from = self.posToVal(left, "x");
              const to = self.posToVal(left + width, "x");
              self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              zoomTo(from, to);
            },
          ],
        },
        series: [
          {},
          ...labels.map((name): uPlot.Series => {
            const s = strokes.get(name);
            return {
              label: name,
              stroke: token(s?.colour ?? "--series-rest"),
              dash: s?.dash ?? [],
              ...(area && !stack ? { fill: (self: uPlot) => fading(self, token(s?.colour ?? "--series-rest")) } : {}),
              ...(stack ? { fill: tinted(token(s?.colour ?? "--series-rest")) } : {}),
              width: 1.6,
              spanGaps: false,
              // A sample between two gaps is a line of no length, so it is drawn as a point.
              points: { show: true, size: 4, filter: alone },
            };
          }),
        ],
        // The area between a line and the one below it has its colour.
        bands: stack ? labels.slice(1).map((name, i) => ({ series: [i + 2, i + 1] as [number, number], fill: tinted(token(strokes.get(name)?.colour ?? "--series-rest")) })) : [],
      },
      [[], ...labels.map(() => [])],
      el,
    );
    plot.current = u;
    const watch = new ResizeObserver(() => {
      u.setSize({ width: Math.max(80, el.clientWidth), height: el.clientHeight || height });
    });
    watch.observe(el);
    const follow = subscribeCursor(() => {
      const t = cursorTime();
      if (u.root.matches(":hover")) return;
      u.setCursor({ left: t === null ? -10 : u.valToPos(t, "x"), top: t === null ? -10 : 1 }, false);
    });
    return () => {
      follow();
      watch.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [id, names, unit, height, scheme, strokes, area, stack]);

  useEffect(() => {
    // A line shown alone starts at the axis.
    const lines = stack && only === null ? stacked(series.map((s) => s.values)) : series.map((s) => s.values);
    plot.current?.setData([grid, ...lines]);
    const [first, last] = [grid[0], grid.at(-1)];
    if (first !== undefined && last !== undefined) plot.current?.setScale("x", { min: Math.max(first, begin), max: last });
  }, [grid, series, names, unit, height, scheme, strokes, area, stack, only, begin]);

  useEffect(() => {
    const u = plot.current;
    u?.batch(() => (JSON.parse(names) as string[]).forEach((name, i) => u.setSeries(i + 1, { show: only === null || name === only })));
  }, [only, names, unit, height, scheme, strokes, area, stack]);

  useEffect(() => {
    const u = plot.current;
    // A drag in progress stays as it is.
    if (!u || (!selection && !selected.current)) return;
    selected.current = selection !== null;
    const [left, right] = selection ? [u.valToPos(selection.from, "x"), u.valToPos(selection.to, "x")] : [0, 0];
    u.setSelect({ left, width: right - left, top: 0, height: selection ? u.over.clientHeight : 0 }, false);
  }, [selection, grid]);

  // The drawing behind the lines has changed, and with the band the range of values.
  useEffect(() => plot.current?.redraw(false), [marks]);
  useEffect(() => plot.current?.redraw(true, true), [band]);

  const onUp = (e: PointerEvent) => {
    if (e.button === 0 && Math.abs(e.clientX - pressedAt.current) < 4 && plot.current) onPick(nearest(plot.current, JSON.parse(names) as string[]));
  };
  return <div ref={box} className="plot-box" style={{ height }} onPointerDown={(e) => (pressedAt.current = e.clientX)} onPointerUp={onUp} onPointerLeave={() => setCursorTime(null)} />;
}

/** The upper edge of the highest band. */
function highest(u: uPlot, band: Band | null): number {
  const [times, ...lines] = u.data;
  if (!band || band.grid.length !== times.length || band.grid[0] !== times[0]) return -Infinity;
  let most = -Infinity;
  lines.forEach((values, n) => {
    if (u.series[n + 1]?.show === false) return;
    band.half.forEach((h, i) => h !== null && values[i] != null && (most = Math.max(most, values[i]! * (1 + h))));
  });
  return most;
}

/** The name of the line nearest to the pointer; null if none is near. */
function nearest(u: uPlot, names: string[]): string | null {
  const { idx, top } = u.cursor;
  if (idx === null || idx === undefined || top === undefined) return null;
  let best: string | null = null;
  let least = 24; // pixels
  names.forEach((name, n) => {
    const v = u.data[n + 1]?.[idx];
    if (v == null || u.series[n + 1]?.show === false) return;
    const away = Math.abs(u.valToPos(v, "y") - top);
    if (away < least) [best, least] = [name, away];
  });
  return best;
}

const levelColours = { critical: "--bad", warning: "--warn", info: "--accent" };

/** Marks are drawn behind the lines: a tint, and a solid line along the top. */
function drawMarks(u: uPlot, marks: Mark[], token: (name: string) => string): void {
  const { left, top, width, height } = u.bbox;
  const x = (t: number) => Math.max(left, Math.min(left + width, u.valToPos(t, "x", true)));
  for (const m of covered(marks)) {
    const [from, to] = [x(m.from), x(m.to)];
    u.ctx.fillStyle = token(levelColours[m.level]);
    u.ctx.fillRect(from, top, Math.max(1, to - from), 3 * uPlot.pxRatio);
    u.ctx.globalAlpha = 0.07;
    u.ctx.fillRect(from, top, Math.max(1, to - from), height);
    u.ctx.globalAlpha = 1;
  }
}

/** Bands are drawn behind the lines, each in its line's colour. They belong to the times they were
 * fetched for: while only one of the two has moved on there are none. */
function drawBands(u: uPlot, band: Band | null, colours: string[]): void {
  const [times, ...lines] = u.data;
  if (!band || band.grid.length !== times.length || band.grid[0] !== times[0]) return;
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  u.ctx.globalAlpha = 0.18;
  lines.forEach((values, n) => {
    if (u.series[n + 1]?.show === false) return;
    u.ctx.fillStyle = colours[n] ?? "";
    for (const [from, to] of stretches(values, band.half)) {
      const point = (i: number, side: number) => u.ctx.lineTo(u.valToPos(times[i]!, "x", true), u.valToPos(values[i]! * Math.max(0, 1 + side * band.half[i]!), "y", true));
      u.ctx.beginPath();
      for (let i = from; i <= to; i++) point(i, 1);
      for (let i = to; i >= from; i--) point(i, -1);
      u.ctx.fill();
    }
  });
  u.ctx.restore();
}

/** The runs of indices, both ends included, that have a value and a band. */
export function stretches(values: ArrayLike<number | null | undefined>, half: (number | null)[]): [number, number][] {
  const out: [number, number][] = [];
  half.forEach((h, i) => {
    if (h === null || values[i] === null || values[i] === undefined) return;
    const last = out.at(-1);
    if (last && last[1] === i - 1) last[1] = i;
    else out.push([i, i]);
  });
  return out;
}

/** The colour, given as #rrggbb, fading from a tint at the top to nothing. */
function fading(u: uPlot, colour: string): CanvasGradient | string {
  const { top, height } = u.bbox;
  if (!Number.isFinite(top) || !Number.isFinite(height)) return "transparent";
  const g = u.ctx.createLinearGradient(0, top, 0, top + height);
  g.addColorStop(0, `${colour}66`);
  g.addColorStop(1, `${colour}00`);
  return g;
}

/** The colour, which is written #rrggbb, as the ground of a stack. */
function tinted(colour: string): string {
  return `${colour}59`;
}

function alone(u: uPlot, seriesIndex: number): number[] {
  const d = u.data[seriesIndex] ?? [];
  const out: number[] = [];
  d.forEach((v, i) => v != null && d[i - 1] == null && d[i + 1] == null && out.push(i));
  return out;
}

function spanOf(u: uPlot): number {
  return (u.scales["x"]?.max ?? 0) - (u.scales["x"]?.min ?? 0);
}

function timeLabels(u: uPlot, ticks: number[]): string[] {
  const span = spanOf(u);
  return ticks.map((t) => {
    const text = formatMoment(t, span);
    // Seconds are only useful if ticks are that close.
    return span <= 86400 && ticks.every((x) => x % 60 === 0) ? text.slice(0, 5) : text;
  });
}
