// The error of estimates over the time of a chart, from the standard errors of sources that count
// only part of the events.
import { useResource } from "../api/resource";
import type { Unit } from "../format/number";
import { queryRange } from "../query/feed";
import { own, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { sourcesOf } from "../state/sources";
import { gridOf, type Window } from "../state/window";
import { halfInterval } from "../words/remarks";
import { keyOf } from "./data";

/** Half a 95 % interval at each time of a grid, relative to the value; null where nothing is estimated. */
export interface Band {
  grid: number[];
  half: (number | null)[];
}

/** Units of counts: quantiles and shares have smaller errors than counts. */
const counted: Unit[] = ["1/s", "bytes/s", "cores"];

async function errorsBySource(w: Window): Promise<Map<string, (number | null)[]>> {
  const range = `${Math.ceil(Math.max(w.step, 2 * w.interval))}s`;
  const { rows } = await queryRange(`max by (source) (max_over_time(${select("teescope_source_standard_error_ratio", own(w))}[${range}]))`, w);
  return new Map(rows.map((r) => [r.metric["source"] ?? "", r.values]));
}

/** The band of values from several estimates is that of the least certain one. */
export function widest(grid: number[], errors: (number | null)[][]): Band | null {
  const half = grid.map((_, i) => {
    const at = errors.map((e) => e[i]).filter((e) => e !== null && e !== undefined);
    return at.length === 0 ? null : halfInterval(Math.max(...at));
  });
  return half.some((h) => h !== null) ? { grid, half } : null;
}

/** The band of a chart of these metrics; null if none of them is estimated. */
export function useBand(metrics: string[], unit: Unit, wanted: boolean): Band | null {
  const { sources, window: w } = useMachine();
  const behind = sourcesOf(sources.data, metrics).map((s) => s.name);
  const { data } = useResource(wanted && counted.includes(unit) && behind.length > 0 ? `${behind.join(" ")} ${w.instance} ${keyOf(w)}` : null, async () => {
    const errors = await errorsBySource(w);
    return { band: widest(gridOf(w), behind.flatMap((s) => [errors.get(s) ?? []])) };
  });
  return data?.band ?? null;
}
