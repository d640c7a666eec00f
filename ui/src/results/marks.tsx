// The small pieces that plots of results are drawn with.
import type { ReactNode } from "react";
import { armShapes, looks, type Kind, type Shape } from "../words/benchmark";

const paths: Record<Exclude<Shape, "disc" | "ring">, string> = {
  square: "M-4.4-4.4H4.4V4.4H-4.4Z",
  diamond: "M0-6.2L6.2 0L0 6.2L-6.2 0Z",
  triangle: "M0-6L5.8 4.3H-5.8Z",
  inverted: "M0 6L5.8-4.3H-5.8Z",
  cross: "M-4.2-4.2L4.2 4.2M-4.2 4.2L4.2-4.2",
  plus: "M-5 0H5M0-5V5",
};

/** A shape around 0,0, of about radius 5, in a colour token. */
export function Glyph({ shape, tone }: { shape: Shape; tone: string }) {
  const colour = `var(--${tone})`;
  if (shape === "disc") return <circle r="5" fill={colour} />;
  if (shape === "ring") return <circle r="4.5" fill="var(--surface)" stroke={colour} strokeWidth="2" />;
  const line = shape === "cross" || shape === "plus";
  return <path d={paths[shape]} fill={line ? "none" : colour} stroke={line ? colour : "none"} strokeWidth="2.2" />;
}

/** A symbol at a place in percent of the plot's width, with its value on hover. */
export function Mark({ x, y = "50%", shift = 0, shape, tone, title, scale = 1 }: { x: number; y?: string; shift?: number; shape: Shape; tone: string; title: string; scale?: number }) {
  return (
    <svg className="mark" x={`${x}%`} y={y}>
      <g transform={`translate(0 ${shift}) scale(${scale})`}>
        <title>{title}</title>
        <Glyph shape={shape} tone={tone} />
      </g>
    </svg>
  );
}

/** A symbol in a line of text. */
export function Swatch({ shape, tone }: { shape: Shape; tone: string }) {
  return (
    <svg className="swatch-shape" viewBox="-7 -7 14 14" width="12" height="12" aria-hidden="true">
      <Glyph shape={shape} tone={tone} />
    </svg>
  );
}

/** How an arm looks, by its place among the environments. */
export function armLook(i: number): { shape: Shape; tone: string } {
  return i < 0 ? { shape: "diamond", tone: "series-rest" } : { shape: armShapes[i % armShapes.length]!, tone: `series-${i % 8}` };
}

export function ArmName({ name, index }: { name: string; index: number }) {
  return (
    <span className="arm-name">
      <Swatch {...armLook(index)} /> {name || "unnamed"}
    </span>
  );
}

/** A verdict by shape, word and colour. */
export function VerdictChip({ kind, material = false }: { kind: Kind; material?: boolean }) {
  const look = looks[kind];
  return (
    <span className={`chip verdict-chip tone-${look.tone}`} title={look.means} data-verdict={kind}>
      <Swatch shape={look.shape} tone={look.tone} /> {look.word}
      {material && kind !== "platform" ? ", material" : ""}
    </span>
  );
}

/** Rows of label, plot, figure and a word, all plots on one axis: a table to a
 * screen reader, and on a narrow screen the plot below its label. */
export interface PlotRow {
  key: string;
  label: ReactNode;
  plot: ReactNode;
  figure: ReactNode;
  last?: ReactNode;
  strong?: boolean;
  /** Height of the plot in pixels, where it needs more than a line. */
  height?: number;
}

export function PlotTable({ caption, heads, axis, rows, note }: { caption: string; heads: [string, string, string] | [string, string]; axis: ReactNode; rows: PlotRow[]; note?: ReactNode }) {
  const [first, figure, last] = heads;
  return (
    <div className="plot-table-box">
      {note && <div className="plot-legend">{note}</div>}
      <div className={last === undefined ? "plot-table three" : "plot-table"} role="table" aria-label={caption}>
        <div role="row" className="plot-row plot-head">
          <span role="columnheader" className="plot-label">
            {first}
          </span>
          <span role="columnheader" className="plot-cell">
            <span className="hidden">Plot</span>
            <svg aria-hidden="true">{axis}</svg>
          </span>
          <span role="columnheader" className="plot-figure">
            {figure}
          </span>
          {last !== undefined && (
            <span role="columnheader" className="plot-last">
              {last}
            </span>
          )}
        </div>
        {rows.map((r) => (
          <div role="row" className="plot-row" key={r.key} data-key={r.key}>
            <span role="rowheader" className={r.strong ? "plot-label strong" : "plot-label"}>
              {r.label}
            </span>
            <span role="cell" className="plot-cell" style={r.height ? { minHeight: r.height } : undefined}>
              {/* The cells beside it say the same in text. */}
              <svg aria-hidden="true">{r.plot}</svg>
            </span>
            <span role="cell" className="plot-figure">
              {r.figure}
            </span>
            {last !== undefined && (
              <span role="cell" className="plot-last">
                {r.last}
              </span>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}

/** Ticks with their text, for the head of a plot table. */
export function AxisHead({ ticks, title }: { ticks: { at: number; text: string }[]; title: string }) {
  return (
    <>
      <text x="50%" y="11" textAnchor="middle" className="axis-text">
        {title}
      </text>
      {ticks.map((t) => (
        <text key={t.text + t.at} x={`${t.at}%`} y="28" textAnchor={t.at < 6 ? "start" : t.at > 94 ? "end" : "middle"} className="axis-text">
          {t.text}
        </text>
      ))}
      <Grid ticks={ticks} from="32" />
    </>
  );
}

/** Lines at the ticks, through the height of a row. */
export function Grid({ ticks, from = "0" }: { ticks: { at: number }[]; from?: string }) {
  return ticks.map((t) => <line key={t.at} x1={`${t.at}%`} x2={`${t.at}%`} y1={from} y2="100%" className="grid-line" />);
}

