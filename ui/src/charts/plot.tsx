// uPlot as a component: lines over the window's grid, a cursor that all charts
// share, drag to zoom, double click to go back.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatTick, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import type { Series } from "../query/series";
import { zoomBack, zoomTo } from "../state/use-place";
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
  /** Part of the key: a chart is drawn anew when the colours change. */
  scheme: "light" | "dark";
  /** The area below each line is tinted, fading downwards. */
  area: boolean;
  marks: Mark[];
  /** Around each line, where values are estimates. */
  band: Band | null;
}

export function Plot({ grid, series, strokes, unit, height, scheme, area, marks, band }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marked = useRef(marks);
  marked.current = marks;
  const banded = useRef(band);
  banded.current = band;
  // As text it is the same while the names are; a name may hold any character.
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
        padding: [8, 16, 0, 0],
        legend: { show: false },
        scales: { x: { time: true }, y: { range: (_u, min, max) => [min < 0 ? min * 1.08 : 0, max > 0 ? max * 1.08 : min < 0 ? 0 : 1] } },
        axes: [
          { ...axis, size: 22, space: (u) => (spanOf(u) < 240 ? 66 : 46), incrs: (u) => (spanOf(u) < 240 ? seconds : minutes), values: timeLabels },
          {
            ...axis,
            size: 52,
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
              setCursorTime(i === null || i === undefined || (self.cursor.left ?? -1) < 0 ? null : (self.data[0][i] ?? null));
            },
          ],
          setSelect: [
            (self) => {
              const { left, width } = self.select;
              if (width < 4) return;
              const from = self.posToVal(left, "x");
              const to = self.posToVal(left + width, "x");
              self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              if (to - from >= 10) zoomTo(from, to);
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
              ...(area ? { fill: (self: uPlot) => fading(self, token(s?.colour ?? "--series-rest")) } : {}),
              width: 1.6,
              spanGaps: false,
              // A sample between two gaps is a line of no length, so it is drawn as a point.
              points: { show: true, size: 4, filter: alone },
            };
          }),
        ],
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
  }, [names, unit, height, scheme, strokes, area]);

  useEffect(() => {
    plot.current?.setData([grid, ...series.map((s) => s.values)]);
    const [first, last] = [grid[0], grid.at(-1)];
    if (first !== undefined && last !== undefined) plot.current?.setScale("x", { min: first, max: last });
  }, [grid, series, names, unit, height, scheme, strokes, area]);

  // Nothing but what lies behind the lines has changed: scales and lines stay as they are.
  useEffect(() => plot.current?.redraw(false), [marks, band]);

  return <div ref={box} style={{ height }} onPointerLeave={() => setCursorTime(null)} />;
}

const levelColours = { critical: "--bad", warning: "--warn", info: "--accent" };

/** Marks lie behind the lines: a tint, and a solid line along the top. */
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

/** Bands lie behind the lines, each in its line's colour. They belong to the times
 * that they were fetched for: while only one of the two has moved on there are none. */
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

/** The runs of indices, both ends included, at which there are a value and a band. */
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

/** The colour, which is written #rrggbb, from a tint at the top to nothing. */
function fading(u: uPlot, colour: string): CanvasGradient | string {
  const { top, height } = u.bbox;
  if (!Number.isFinite(top) || !Number.isFinite(height)) return "transparent";
  const g = u.ctx.createLinearGradient(0, top, 0, top + height);
  g.addColorStop(0, `${colour}66`);
  g.addColorStop(1, `${colour}00`);
  return g;
}

function alone(u: uPlot, seriesIndex: number): number[] {
  const d = u.data[seriesIndex] ?? [];
  const out: number[] = [];
  d.forEach((v, i) => v != null && d[i - 1] == null && d[i + 1] == null && out.push(i));
  return out;
}

const powersOfTwo = Array.from({ length: 61 }, (_, i) => 2 ** i);

// Labels with seconds are wide, so that only short windows have them.
const seconds = [1, 5, 10, 15, 30, 60];
const minutes = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

function spanOf(u: uPlot): number {
  return (u.scales["x"]?.max ?? 0) - (u.scales["x"]?.min ?? 0);
}

function timeLabels(u: uPlot, ticks: number[]): string[] {
  const span = spanOf(u);
  return ticks.map((t) => {
    const text = formatMoment(t, span);
    // Seconds say something only where ticks are that close.
    return span <= 86400 && ticks.every((x) => x % 60 === 0) ? text.slice(0, 5) : text;
  });
}
