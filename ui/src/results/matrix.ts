// Results as a matrix: a workload in each row, a pair of environments in each column.
import type { ResultComparison, ResultSummary } from "../api/types";
import { kindOf } from "../words/benchmark";
import { tellingOf } from "./document";

export interface Cell {
  result: ResultSummary;
  /** The comparison of the newest result that the cell shows. */
  comparison: ResultComparison;
  /** Cost ratios of this comparison over all results of the pair, the oldest first. */
  trend: number[];
}

export interface Matrix {
  /** Baselines and treatments, those with the most workloads first. */
  columns: { baseline: string; treatment: string }[];
  rows: { workload: string; cells: (Cell | null)[] }[];
}

const keyOf = (c: Pick<ResultComparison, "baseline" | "treatment">) => JSON.stringify([c.baseline, c.treatment]);

/** The newest result of each workload and pair; an A/A run compares nothing. */
export function matrixOf(results: ResultSummary[]): Matrix {
  const newestFirst = results.filter((r) => !r.calibration).toSorted((a, b) => b.started.localeCompare(a.started));
  const byWorkload = new Map<string, Map<string, Cell>>();
  const columns = new Map<string, { baseline: string; treatment: string; n: number }>();
  for (const result of newestFirst) {
    for (const key of new Set((result.comparisons ?? []).map(keyOf))) {
      const comparisons = (result.comparisons ?? []).filter((c) => keyOf(c) === key);
      const telling = tellingOf(comparisons);
      if (!telling) continue;
      const cells = byWorkload.get(result.workload) ?? new Map<string, Cell>();
      byWorkload.set(result.workload, cells);
      const there = cells.get(key);
      if (!there) {
        const column = columns.get(key) ?? { baseline: telling.baseline, treatment: telling.treatment, n: 0 };
        column.n++;
        columns.set(key, column);
        cells.set(key, { result, comparison: telling, trend: ratioOf(telling) });
        continue;
      }
      // A refused run is not a point of a trend, and a stand-in not one of the real thing.
      const same = comparisons.find((c) => c.case === there.comparison.case && c.metric === there.comparison.metric);
      if (same && !same.stand_in === !there.comparison.stand_in) there.trend.unshift(...ratioOf(same));
    }
  }
  const sorted = [...columns].toSorted(([, a], [, b]) => b.n - a.n || (a.treatment < b.treatment ? -1 : 1));
  return {
    columns: sorted.map(([, { baseline, treatment }]) => ({ baseline, treatment })),
    rows: [...byWorkload].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([workload, cells]) => ({ workload, cells: sorted.map(([key]) => cells.get(key) ?? null) })),
  };
}

function ratioOf(c: ResultComparison): number[] {
  return c.cost_ratio === null || kindOf(c) === "invalid" ? [] : [c.cost_ratio];
}
