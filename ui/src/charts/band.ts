// How far estimates may be off over the time of a chart: the standard errors that
// sources give which count a part of the events only.
import { queryRange } from "../api/client";
import { useResource } from "../api/resource";
import type { Unit } from "../format/number";
import { own, select } from "../query/promql";
import { align } from "../query/series";
import { useMachine } from "../state/machine";
import { sourcesOf } from "../state/sources";
import { gridOf, type Window } from "../state/window";
import { keyOf, perWindow } from "./data";

/** Half a 95 % interval at each time of a grid, relative to the value; null where nothing is estimated. */
export interface Band {
  grid: number[];
  half: (number | null)[];
}

/** Standard errors in half a 95 % interval. */
const z = 1.96;

/** Units of what is counted: quantiles and shares are not off by as much as counts are. */
const counted: Unit[] = ["1/s", "bytes/s", "cores"];

const errorsBySource = perWindow(async (w: Window) => {
  const grid = gridOf(w);
  const range = `${Math.ceil(Math.max(w.step, 2 * w.interval))}s`;
  const { rows } = await queryRange(`max by (source) (max_over_time(${select("teescope_source_standard_error_ratio", own(w))}[${range}]))`, w);
  return { grid, errors: new Map(rows.map((r) => [r.metric["source"] ?? "", align(grid, r)])) };
});

/** The band of values that come from several estimates is that of the least certain one. */
export function widest(grid: number[], errors: (number | null)[][]): Band | null {
  const half = grid.map((_, i) => {
    const at = errors.map((e) => e[i]).filter((e) => e !== null && e !== undefined);
    return at.length === 0 ? null : z * Math.max(...at);
  });
  return half.some((h) => h !== null) ? { grid, half } : null;
}

/** The band of a chart of these metrics; null where none of it is estimated. */
export function useBand(metrics: string[], unit: Unit, wanted: boolean): Band | null {
  const { sources, window: w } = useMachine();
  const behind = sourcesOf(sources.data, metrics).map((s) => s.name);
  const { data } = useResource(wanted && counted.includes(unit) && behind.length > 0 ? `${behind.join(" ")} ${w.instance} ${keyOf(w)}` : null, async () => {
    const { grid, errors } = await errorsBySource(w);
    return { band: widest(grid, behind.flatMap((s) => [errors.get(s) ?? []])) };
  });
  return data?.band ?? null;
}
