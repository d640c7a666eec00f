// The legend is the chart's table: names with their average and last value,
// or, while the cursor is on a chart, their value at that time.
import { formatValue, rawValue, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import { others } from "../query/promql";
import { latest } from "../query/series";
import type { Place } from "../state/place";
import { PlaceLink } from "../frame/link";
import { useCursorTime } from "./cursor";
import type { ChartData } from "./data";
import type { Stroke } from "./palette";

interface Props {
  caption: string;
  data: ChartData;
  strokes: Map<string, Stroke>;
  unit: Unit;
  /** Where a name leads, if anywhere. */
  target?: ((name: string) => Partial<Place>) | undefined;
}

export function Legend({ caption, data, strokes, unit, target }: Props) {
  const time = useCursorTime();
  const { grid, series, means, folded } = data;
  const span = (grid.at(-1) ?? 0) - (grid[0] ?? 0);
  const step = (grid[1] ?? 0) - (grid[0] ?? 0);
  const at = time === null ? -1 : Math.round((time - (grid[0] ?? 0)) / step);
  const under = at >= 0 && at < grid.length;

  const rows = series.map((s) => ({ name: s.name, mean: means.get(s.name) ?? null, now: under ? (s.values[at] ?? null) : latest(s) }));
  const by = under ? "now" : "mean";
  // The others stay last: they are no competitor.
  rows.sort((a, b) => Number(a.name === others) - Number(b.name === others) || (b[by] ?? -1) - (a[by] ?? -1));

  return (
    <table className="legend">
      <caption className="hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">
            <span className="hidden">Name</span>
          </th>
          <th scope="col">average</th>
          <th scope="col" className="legend-now">{under ? formatMoment(grid[at]!, span) : "last"}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((r) => {
          const stroke = strokes.get(r.name);
          const text = r.name === others ? `${folded} others` : r.name;
          return (
            <tr key={r.name} data-name={r.name === others ? "others" : r.name} data-mean={r.mean ?? ""} data-now={r.now ?? ""}>
              <th scope="row">
                <svg className="swatch" width="18" height="8" aria-hidden="true">
                  <line x1="0" x2="18" y1="4" y2="4" strokeWidth="2.5" style={{ stroke: `var(${stroke?.colour ?? "--series-rest"})` }} strokeDasharray={stroke?.dash.join(" ") || undefined} />
                </svg>
                {target && r.name !== others ? <PlaceLink to={target(r.name)}>{text}</PlaceLink> : <span>{text}</span>}
              </th>
              <td title={rawValue(r.mean, unit)}>{formatValue(r.mean, unit)}</td>
              <td title={rawValue(r.now, unit)}>{formatValue(r.now, unit)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
