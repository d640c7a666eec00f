// The legend is the chart's table, drawn as one line: names with their last value or, while the
// cursor is on a chart, their value at that time. Averages are in the titles and for screen
// readers. A click on a line's mark shows only that line.
import { formatValue, rawValue, type Unit } from "../format/number";
import { formatMoment } from "../format/time";
import { PlaceLink } from "../frame/link";
import { others } from "../query/promql";
import { latest } from "../query/series";
import type { Place } from "../state/place";
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
  /** The only line shown, if one is selected. */
  only: string | null;
  isolate: (name: string | null) => void;
}

export function Legend({ caption, data, strokes, unit, target, only, isolate }: Props) {
  const time = useCursorTime();
  const { grid, series, means, folded } = data;
  const span = (grid.at(-1) ?? 0) - (grid[0] ?? 0);
  const step = (grid[1] ?? 0) - (grid[0] ?? 0);
  const at = time === null ? -1 : Math.round((time - (grid[0] ?? 0)) / step);
  const under = at >= 0 && at < grid.length;

  const rows = series.map((s) => ({ name: s.name, mean: means.get(s.name) ?? null, now: under ? (s.values[at] ?? null) : latest(s) }));
  // The others stay last, because they are no single name. Names stay in place while values under
  // the cursor change; the tooltip sorts by these.
  rows.sort((a, b) => Number(a.name === others) - Number(b.name === others) || (b.mean ?? -1) - (a.mean ?? -1));

  return (
    <div className="legend-line" tabIndex={-1}>
      <table className="legend">
        <caption className="hidden">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden">Name</span>
            </th>
            <th scope="col" className="legend-now">
              {under ? formatMoment(grid[at]!, span) : "last"}
            </th>
            <th scope="col">
              <span className="hidden">average</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => {
            const stroke = strokes.get(r.name);
            const text = textOf(r.name, folded);
            return (
              <tr key={r.name} data-name={r.name === others ? "others" : r.name} data-mean={r.mean ?? ""} data-now={r.now ?? ""} className={only !== null && only !== r.name ? "legend-off" : ""} title={`${text}: ${formatValue(r.now, unit)}, average ${formatValue(r.mean, unit)} (${rawValue(r.mean, unit)})`}>
                <th scope="row">
                  <button type="button" className="swatch-button" aria-pressed={only === r.name} aria-label={`Show only ${text}`} onClick={() => isolate(only === r.name ? null : r.name)}>
                    <Swatch stroke={stroke} />
                  </button>
                  {target && r.name !== others ? <PlaceLink to={target(r.name)}>{text}</PlaceLink> : <span>{text}</span>}
                </th>
                <td>{formatValue(r.now, unit)}</td>
                <td>
                  <span className="hidden">{formatValue(r.mean, unit)}</span>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** A name as readers see it. */
export function textOf(name: string, folded: number): string {
  return name === others ? `${folded} others` : name;
}

export function Swatch({ stroke }: { stroke: Stroke | undefined }) {
  return (
    <svg className="swatch" width="16" height="8" aria-hidden="true">
      <line x1="0" x2="16" y1="4" y2="4" strokeWidth="2.5" style={{ stroke: `var(${stroke?.colour ?? "--series-rest"})` }} strokeDasharray={stroke?.dash.join(" ") || undefined} />
    </svg>
  );
}
