// A user's panel, in each of its kinds.
import type { ReactNode } from "react";
import { useResource, type Resource } from "../api/resource";
import type { Panel } from "../api/types";
import { QueryChart } from "../charts/charts";
import { keyOf, labelText, labelTexts, namesOf } from "../charts/data";
import { gridCSV, type Grid } from "../charts/heat";
import { HeatMap } from "../charts/heat-map";
import { PanelBox, useSeen } from "../charts/panel";
import { Spark } from "../charts/spark";
import { useWidth } from "../charts/width";
import { BoxPlots } from "../explore/boxes";
import { Values } from "../explore/values";
import { formatTick, formatValue, rawValue, unitOf, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import { queryAt, queryRange, type Rows } from "../query/feed";
import { csvOf, mean, numberOf, type VectorRow } from "../query/series";
import { useMachine } from "../state/machine";
import { gridOf, type Window } from "../state/window";
import { bandsOf, binsCSV, binsOf, binsOfBuckets, type Bin } from "./bins";

interface Props {
  panel: Panel;
  /** Buttons next to the menu. */
  tools: ReactNode;
}

export function UserPanel({ panel, tools }: Props) {
  const { title, query } = panel;
  const unit = unitOf(panel.unit);
  const common = { title, tools, metrics: [], unit, height: 180 };
  switch (panel.kind) {
    case "graph":
    case "area":
      return <QueryChart {...common} expr={query} by="what differs" area={panel.kind === "area"} />;
    case "boxplot":
      return <BoxPlots {...common} expr={query} />;
    case "histogram":
      return <HistogramPanel {...common} expr={query} />;
    case "heatmap":
      return <HeatPanel {...common} expr={query} />;
    case "gauge":
    case "value":
    case "table":
      return <NowPanel {...common} expr={query} kind={panel.kind} />;
  }
}

interface DrawnProps {
  title: string;
  tools: ReactNode;
  metrics: string[];
  unit: Unit;
  height: number;
  expr: string;
}

interface Now extends Rows<VectorRow> {
  expr: string;
  /** The largest value of each series in the window, in the order of rows. */
  most: number[];
}

/** More than this do not fit a panel. */
const mostValues = 6;

function NowPanel({ kind, expr, unit, ...box }: DrawnProps & { kind: "gauge" | "value" | "table" }) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const data = useResource<Now>(seen ? `${kind} ${expr} ${w.from} ${w.to}` : null, async () => {
    const now = await queryAt(expr, w.to);
    // The full end of a gauge: 1 for a ratio, otherwise the maximum in the window.
    const most = kind !== "gauge" || unit === "ratio" || now.rows.length === 0 ? null : await queryRange(expr, w);
    const largest = new Map(most?.rows.map((r) => [labelText(r.metric), Math.max(0, ...r.values.map((v) => v ?? 0))]));
    return { ...now, expr, most: now.rows.map((r) => (unit === "ratio" ? 1 : Math.max(largest.get(labelText(r.metric)) ?? 0, Number(r.value[1]) || 0))) };
  });
  const rows = data.data?.rows ?? [];
  const nameOf = namesOf(rows.map((r) => r.metric));
  const textOf = labelTexts(rows.map((r) => r.metric));
  const csv = () => csvOf([["series", "value"], ...rows.map((r) => [textOf(r.metric), r.value[1]])]);
  return (
    <div ref={ref}>
      <PanelBox {...box} data={data} drawn={rows.length > 0} csv={csv}>
        {kind === "table" ? (
          <Values data={data as Resource<Rows<VectorRow>>} unit={unit} first={10} />
        ) : (
          <div className="stats">
            {rows.slice(0, mostValues).map((r, i) => {
              const value = numberOf(r.value[1]);
              const name = rows.length === 1 ? "" : nameOf(r.metric);
              return kind === "gauge" ? <Gauge key={i} name={name} value={value} most={data.data?.most[i] ?? 0} unit={unit} /> : <Value key={i} name={name} value={value} unit={unit} />;
            })}
          </div>
        )}
        {kind === "value" && rows.length === 1 && <Spark expr={expr} label={box.title} />}
        {kind !== "table" && rows.length > mostValues && <p className="note">{rows.length - mostValues} more series are not shown.</p>}
      </PanelBox>
    </div>
  );
}

function Value({ name, value, unit }: { name: string; value: number; unit: Unit }) {
  return (
    <div className="stat" title={rawValue(value, unit)} data-value={value}>
      <b>{formatValue(value, unit)}</b>
      {name && <span className="mono small dim">{name}</span>}
    </div>
  );
}

/** Half a circle, filled up to the value's share of the maximum. */
function Gauge({ name, value, most, unit }: { name: string; value: number; most: number; unit: Unit }) {
  const share = most > 0 ? Math.max(0, Math.min(1, value / most)) : 0;
  const length = Math.PI * 44;
  const full = unit === "ratio" ? "of all" : `of ${formatValue(most, unit)}, the maximum in this window`;
  return (
    <figure className="gauge" title={`${rawValue(value, unit)}, ${full}`} data-value={value}>
      <svg viewBox="0 0 100 58" width="100%" role="img" aria-label={`${name} ${formatValue(value, unit)} ${full}`}>
        <path d="M6 52A44 44 0 0 1 94 52" className="gauge-track" />
        <path d="M6 52A44 44 0 0 1 94 52" className="gauge-fill" strokeDasharray={`${length * share} ${length}`} />
        <text x="50" y="50" textAnchor="middle" className="gauge-text">
          {formatValue(value, unit)}
        </text>
      </svg>
      <figcaption className="small dim">
        {name && <span className="mono">{name} </span>}
        {full}
      </figcaption>
    </figure>
  );
}

function HistogramPanel({ expr, unit, ...box }: DrawnProps) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const data = useResource(seen ? `${expr} ${keyOf(w)}` : null, async () => {
    const now = await queryAt(expr, w.to);
    const buckets = binsOfBuckets(now.rows);
    if (buckets) return { expr, bins: buckets, buckets: true, warnings: now.warnings };
    const { rows, warnings } = await queryRange(expr, w);
    const values = rows.flatMap((r) => r.values).filter((v) => v !== null);
    return { expr, bins: binsOf(values), buckets: false, warnings };
  });
  const bins = data.data?.bins ?? [];
  return (
    <div ref={ref}>
      <PanelBox {...box} data={data} drawn={bins.length > 0} csv={() => binsCSV(bins)}>
        <Bars bins={bins} unit={unit} height={box.height} caption={box.title} />
        <p className="note">{data.data?.buckets ? "Counted in buckets, at the end of the time range." : "Number of points with each value in the time range, all series together."}</p>
      </PanelBox>
    </div>
  );
}

function Bars({ bins, unit, height, caption }: { bins: Bin[]; unit: Unit; height: number; caption: string }) {
  const [ref, width] = useWidth<HTMLElement>();
  const most = Math.max(...bins.map((b) => b.count), 1);
  const slot = width / bins.length;
  const inner = height - 20;
  const every = Math.ceil((bins.length * 60) / Math.max(1, width));
  const range = (b: Bin) => (b.to === Infinity ? `above ${formatValue(b.from, unit)}` : `${formatValue(b.from, unit)} to ${formatValue(b.to, unit)}`);
  return (
    <figure className="boxes" ref={ref}>
      <svg width={width} height={height} role="img" aria-label={`Histogram: ${caption}`}>
        {bins.map((b, i) => (
          <g key={b.from} data-count={b.count}>
            <title>{`${range(b)}: ${formatValue(b.count, "")}`}</title>
            <rect x={i * slot} width={slot} y={0} height={inner} fill="transparent" />
            <rect x={i * slot + 1} width={Math.max(1, slot - 2)} y={inner - (b.count / most) * inner} height={(b.count / most) * inner} fill="var(--series-0)" />
            {i % every === 0 && i * slot < width - 40 && (
              <text x={i * slot + 1} y={height - 5} className="tick-text">
                {formatTick(b.from, unit)}
              </text>
            )}
          </g>
        ))}
        <line x1="0" x2={width} y1={inner} y2={inner} stroke="var(--line-strong)" />
      </svg>
      <div className="hidden">
        <table>
          <caption>{caption}</caption>
          <tbody>
            {bins.map((b) => (
              <tr key={b.from}>
                <th scope="row">{range(b)}</th>
                <td>{b.count}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

const slots = 24;

function HeatPanel({ expr, unit, ...box }: DrawnProps) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const data = useResource(seen ? `${expr} ${w.from} ${w.to}` : null, async () => {
    const coarse: Window = { ...w, step: Math.max(1, Math.round((w.to - w.from) / slots)) };
    const times = gridOf(coarse);
    const { rows, warnings } = await queryRange(expr, coarse);
    const nameOf = namesOf(rows.map((r) => r.metric));
    const grid: Grid = { rows: [], columns: times.map((t) => formatMoment(t, w.to - w.from)), values: [] };
    const buckets = rows.length > 1 && rows.every((r) => r.metric["le"] !== undefined);
    const lines = rows.map((r) => ({ name: nameOf(r.metric), le: r.metric["le"] ?? "", values: r.values }));
    if (buckets) {
      for (const b of bandsOf(lines)) {
        grid.rows.push(`≤ ${b.to === Infinity ? "∞" : formatValue(b.to, unit)}`);
        grid.values.push(b.values);
      }
    } else {
      for (const l of lines.sort((a, b) => (mean(b) ?? 0) - (mean(a) ?? 0)).slice(0, 20)) {
        grid.rows.push(l.name);
        grid.values.push(l.values);
      }
    }
    return { expr, grid, buckets, left: buckets ? 0 : lines.length - grid.rows.length, warnings };
  });
  const g = data.data?.grid;
  return (
    <div ref={ref}>
      <PanelBox {...box} data={data} drawn={g !== undefined && g.rows.length > 0} csv={() => (g ? gridCSV("series", g) : "")}>
        {g && <HeatMap caption={box.title} grid={g} unit={data.data?.buckets ? "" : unit} corner="" dense />}
        {(data.data?.left ?? 0) > 0 && <p className="note">{data.data?.left} series with smaller values are left out.</p>}
      </PanelBox>
    </div>
  );
}
