// Values as steps of a sequential colour scale.
import { csvOf } from "../query/series";

/** The steps of the scale, --heat-0 to --heat-7; lighter to darker, or the other way in the dark. */
export const heatSteps = 8;

export interface HeatScale {
  /** The lower end of each step except the lowest one, which begins at the smallest value. */
  bounds: number[];
  /** The step of a value, null for one that is missing or zero. */
  step: (v: number | null | undefined) => number | null;
}

/** Steps of equal ratio between the smallest and the largest value above zero: rates differ by
 * orders of magnitude. At most four orders are distinguished. */
export function heatScale(values: Iterable<number | null | undefined>): HeatScale {
  let low = Infinity;
  let high = 0;
  for (const v of values)
    if (v !== null && v !== undefined && v > 0 && Number.isFinite(v)) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
  if (high === 0) return { bounds: [], step: () => null };
  low = Math.max(low, high / 1e4);
  const span = Math.log(high / low) || 1;
  const edge = (i: number) => low * Math.exp((span * i) / heatSteps);
  return {
    bounds: Array.from({ length: heatSteps - 1 }, (_, i) => edge(i + 1)),
    step: (v) => {
      if (v === null || v === undefined || !(v > 0)) return null;
      if (high === low) return heatSteps - 1;
      return Math.max(0, Math.min(heatSteps - 1, Math.floor((Math.log(v / low) / span) * heatSteps)));
    },
  };
}

/** A table of values: names of rows and columns, and a value for some of the pairs. */
export interface Grid {
  rows: string[];
  columns: string[];
  /** By row, then column. */
  values: (number | null)[][];
}

/** The largest rows and columns of pairs; the omitted ones are counted. */
export function gridOfPairs(pairs: { row: string; column: string; value: number }[], mostRows: number, mostColumns: number): Grid & { rowsLeft: number; columnsLeft: number } {
  const ranked = (key: "row" | "column") => {
    const sums = new Map<string, number>();
    for (const p of pairs) sums.set(p[key], (sums.get(p[key]) ?? 0) + p.value);
    return [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  };
  const [allRows, allColumns] = [ranked("row"), ranked("column")];
  const [rows, columns] = [allRows.slice(0, mostRows), allColumns.slice(0, mostColumns)];
  const [rowAt, columnAt] = [rows, columns].map((names) => new Map(names.map((n, i) => [n, i]))) as [Map<string, number>, Map<string, number>];
  const values: (number | null)[][] = rows.map(() => columns.map(() => null));
  for (const p of pairs) {
    const [i, j] = [rowAt.get(p.row), columnAt.get(p.column)];
    if (i !== undefined && j !== undefined) values[i]![j] = (values[i]![j] ?? 0) + p.value;
  }
  return { rows, columns, values, rowsLeft: allRows.length - rows.length, columnsLeft: allColumns.length - columns.length };
}

/** Comma-separated text of a grid, a line for each row. */
export function gridCSV(corner: string, g: Grid): string {
  return csvOf([[corner, ...g.columns], ...g.rows.map((r, i) => [r, ...g.values[i]!])]);
}
