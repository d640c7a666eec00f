// Box plots of a query's values, window by window.
import { useState } from "react";
import { asking, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { AnomalyBox, Distributions } from "../api/types";
import { axisOf } from "../charts/axis";
import { namesOf } from "../charts/data";
import { PanelBox, useSeen, type PanelProps } from "../charts/panel";
import { colourOf } from "../charts/palette";
import { formatTick, formatValue, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import { useMachine } from "../state/machine";
import { steady } from "../state/window";
import { useWidth } from "../charts/width";
import { boxesCSV, bySeries, readingsPerValue, valuesOf } from "./box";

/** More series than this are not drawn. */
const mostSeries = 8;

interface Props extends PanelProps {
  expr: string;
  unit: Unit;
}

export function BoxPlots({ expr, unit, tools, ...rest }: Props) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const [windows, setWindows] = useState(6);
  const name = asking("distributions", { query: expr, ...steady(w), windows });
  const data = useResource(seen && expr !== "" ? name : null, async (s) => ({ boxes: (await getDocument<Distributions>(name, s)).boxes ?? [], expr, warnings: [] }));
  const nameOf = namesOf((data.data?.boxes ?? []).map((b) => b.labels ?? {}));
  const all = data.data ? bySeries(data.data.boxes, nameOf) : [];
  const shown = all.slice(0, mostSeries);
  const skipped = readingsPerValue(data.data?.boxes ?? [], w.interval);
  const picker = (
    <>
      {tools}
      <select aria-label="Number of windows" value={windows} onChange={(e) => setWindows(Number(e.target.value))}>
        {[1, 2, 6, 12, 24].map((n) => (
          <option key={n} value={n}>
            {n === 1 ? "one box" : `${n} windows`}
          </option>
        ))}
      </select>
    </>
  );
  return (
    <div ref={ref}>
      <PanelBox {...rest} tools={picker} data={data} drawn={shown.length > 0} csv={() => boxesCSV(data.data?.boxes ?? [], nameOf)}>
        {shown.map((s) => (
          <Series key={s.name} name={s.name} boxes={s.boxes} unit={unit} height={rest.height ?? 160} />
        ))}
        {all.length > shown.length && <p className="note">{all.length - shown.length} more series are not drawn.</p>}
        {skipped > 1 && <p className="note">Only one reading in {skipped} is used: shorter peaks may be missing.</p>}
        <p className="note">Box: the middle half of the values. Line: the median. Whiskers: values within 1.5 box heights. Points: values beyond.</p>
      </PanelBox>
    </div>
  );
}

const left = 56;

function Series({ name, boxes, unit, height }: { name: string; boxes: AnomalyBox[]; unit: Unit; height: number }) {
  const [ref, width] = useWidth<HTMLElement>();
  const wide = Math.max(160, width);
  const inner = height - 26;
  const axis = axisOf(boxes.flatMap(valuesOf), inner);
  const y = (v: number) => 6 + inner - axis.at(v);
  const slot = (wide - left) / boxes.length;
  const half = Math.min(24, slot * 0.3);
  const colour = `var(--series-${colourOf(name)})`;
  const span = Date.parse(boxes.at(-1)!.window.to) - Date.parse(boxes[0]!.window.from);
  const when = (iso: string) => formatMoment(Date.parse(iso) / 1000, span / 1000);
  // A label on every box would run into the next one.
  const every = Math.ceil((boxes.length * 64) / (wide - left));
  return (
    <figure className="boxes" ref={ref}>
      <figcaption className="mono small">
        {name}
        {axis.log && <span className="dim"> · logarithmic axis</span>}
      </figcaption>
      <svg width={wide} height={height} role="img" aria-label={`Box plots of ${name}: medians ${boxes.map((b) => formatValue(b.median, unit)).join(", ")}`}>
        {axis.ticks.map((t) => (
          <g key={t}>
            <line x1={left} x2={wide} y1={y(t)} y2={y(t)} stroke="var(--line)" />
            <text x={left - 6} y={y(t) + 4} textAnchor="end" className="tick-text">
              {formatTick(t, unit)}
            </text>
          </g>
        ))}
        {boxes.map((b, i) => {
          const x = left + slot * (i + 0.5);
          return (
            <g key={b.window.from} data-median={b.median}>
              <title>{`${when(b.window.from)} to ${when(b.window.to)}, ${b.n} values: median ${formatValue(b.median, unit)}, middle half ${formatValue(b.q1, unit)} to ${formatValue(b.q3, unit)}, whiskers ${formatValue(b.low, unit)} to ${formatValue(b.high, unit)}, smallest ${formatValue(b.min, unit)}, largest ${formatValue(b.max, unit)}`}</title>
              <rect x={x - slot / 2} width={slot} y={0} height={inner + 6} fill="transparent" />
              <line x1={x} x2={x} y1={y(b.low)} y2={y(b.high)} stroke={colour} />
              {[b.low, b.high].map((v, k) => (
                <line key={k} x1={x - half / 2} x2={x + half / 2} y1={y(v)} y2={y(v)} stroke={colour} />
              ))}
              <rect x={x - half} width={half * 2} y={y(b.q3)} height={Math.max(1, y(b.q1) - y(b.q3))} fill="var(--surface)" stroke={colour} strokeWidth="1.5" />
              <line x1={x - half} x2={x + half} y1={y(b.median)} y2={y(b.median)} stroke={colour} strokeWidth="3" />
              {(b.outliers ?? []).map((v, k) => (
                <circle key={k} cx={x} cy={y(v)} r="2" fill="none" stroke={colour} />
              ))}
              {i % every === 0 && (
                <text x={x} y={height - 4} textAnchor="middle" className="tick-text">
                  {when(b.window.from)}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <div className="hidden">
        <table>
          <caption>{name}</caption>
          <thead>
            <tr>
              {["From", "Values", "Lower whisker", "Lower quartile", "Median", "Upper quartile", "Upper whisker"].map((h) => (
                <th key={h} scope="col">
                  {h}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {boxes.map((b) => (
              <tr key={b.window.from}>
                <th scope="row">{when(b.window.from)}</th>
                <td>{b.n}</td>
                {[b.low, b.q1, b.median, b.q3, b.high].map((v, k) => (
                  <td key={k}>{formatValue(v, unit)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}
