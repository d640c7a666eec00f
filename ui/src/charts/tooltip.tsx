// All values of a chart at the cursor, the largest first.
import { formatValue, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import type { Band } from "./band";
import { useOwnCursor } from "./cursor";
import type { ChartData } from "./data";
import { Swatch, textOf } from "./legend";
import type { Mark } from "./marks";
import type { Stroke } from "./palette";
import { axisWidth, plotPadding } from "./plot";

interface Props {
  id: string;
  data: ChartData;
  strokes: Map<string, Stroke>;
  unit: Unit;
  band: Band | null;
  marks: Mark[];
  only: string | null;
  /** The times at the ends of the axis. */
  from: number;
  to: number;
}

/** The rows of a tooltip: the values of one step, the largest first; without a value last. */
export function rowsAt(data: ChartData, i: number, only: string | null): { name: string; value: number | null }[] {
  return data.series
    .filter((s) => only === null || s.name === only)
    .map((s) => ({ name: s.name, value: s.values[i] ?? null }))
    .sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
}

export function Tooltip({ id, data, strokes, unit, band, marks, only, from, to }: Props) {
  const time = useOwnCursor(id);
  if (time === null || time < from || time > to) return null;
  const { grid, folded } = data;
  const step = (grid[1] ?? 0) - (grid[0] ?? 0);
  const i = Math.round((time - (grid[0] ?? 0)) / step);
  const share = (time - from) / (to - from || 1);
  const half = band?.half[i];
  const under = marks.filter((m) => m.from <= time && time <= m.to);
  // On the side of the cursor with more space.
  const left = `calc(${axisWidth}px + ${share} * (100% - ${axisWidth + plotPadding}px))`;
  const place = share < 0.5 ? { left, translate: "0.75rem 0" } : { left, translate: "calc(-100% - 0.75rem) 0" };
  return (
    <div className="tooltip" style={place} aria-hidden="true">
      <b>{formatMoment(time, to - from)}</b>
      <table>
        <tbody>
          {rowsAt(data, i, only).map((r) => (
            <tr key={r.name} data-tip={r.name}>
              <th>
                <Swatch stroke={strokes.get(r.name)} />
                {textOf(r.name, folded)}
              </th>
              <td>
                {formatValue(r.value, unit)}
                {half != null && r.value !== null && ` ± ${formatValue(half, "ratio")}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {half != null && <p>± is the 95 % interval for all events of the source. Rare events are less certain.</p>}
      {under.map((m) => (
        <p key={m.title} className={`tip-mark mark-${m.level}`}>
          {m.title}
        </p>
      ))}
    </div>
  );
}
