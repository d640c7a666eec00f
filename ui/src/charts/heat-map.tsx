// A heat map: a table with cells coloured by value, readable by eye, by hover and by screen
// readers.
import type { ReactNode } from "react";
import { formatTick, formatValue, rawValue, type Unit } from "../format/number";
import { heatScale, heatSteps, type Grid } from "./heat";

interface Props {
  caption: string;
  grid: Grid;
  unit: Unit;
  /** What the row names are, such as "Process"; "" if the page says it elsewhere. */
  corner: string;
  /** A row's name as a link, if it leads anywhere. */
  rowName?: (name: string) => ReactNode;
  /** There are too many cells for numbers and column names: these appear on hover, and the first and
   * last name below. */
  dense?: boolean;
}

export function HeatMap({ caption, grid, unit, corner, rowName, dense = false }: Props) {
  const scale = heatScale(grid.values.flat());
  return (
    <>
      <div className="scroll" tabIndex={0} role="group" aria-label={caption}>
        <table className={dense ? "heat heat-dense" : "heat"}>
          <caption className="hidden">{caption}</caption>
          <thead>
            <tr>
              {corner === "" ? <td /> : <th scope="col">{corner}</th>}
              {grid.columns.map((c, i) => (
                <th key={i} scope="col" title={c}>
                  <span className={dense ? "hidden" : ""}>{c}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {grid.rows.map((r, i) => (
              <tr key={r} data-name={r}>
                <th scope="row" title={r}>
                  {rowName ? rowName(r) : r}
                </th>
                {grid.values[i]!.map((v, j) => {
                  const step = scale.step(v);
                  return (
                    <td key={j} data-column={grid.columns[j]} data-value={v ?? ""} className={step === null ? "" : `heat-${step}`} title={`${r}, ${grid.columns[j]}: ${v === null ? "none" : `${formatValue(v, unit)} (${rawValue(v, unit)})`}`}>
                      <span className={dense ? "hidden" : ""}>{v === null ? (dense ? "none" : "") : formatTick(v, unit)}</span>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {dense && (
        <p className="heat-ends small dim">
          {grid.columns[0]} to {grid.columns.at(-1)}
        </p>
      )}
      {scale.bounds.length > 0 && (
        <p className="heat-key small dim">
          {Array.from({ length: heatSteps }, (_, i) => (
            <span key={i}>
              <span className={`heat-swatch heat-${i}`} aria-hidden="true" />
              {i === 0 ? "less" : `from ${formatValue(scale.bounds[i - 1], unit)}`}
            </span>
          ))}
        </p>
      )}
    </>
  );
}
