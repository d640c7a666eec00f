// When the monitor was reading.
import { gridOf, type Window } from "../state/window";
import { queryRange } from "./feed";
import { own, select } from "./promql";
import { observed } from "./series";

/** A value at each step of the window at which the monitor was reading; otherwise a gap. */
export async function readings(w: Window): Promise<(number | null)[]> {
  const { rows } = await queryRange(`max(max_over_time(${select("teescope_source_up", own(w))}[${Math.ceil(Math.max(60, w.step, 4 * w.interval))}s]))`, w);
  return rows[0]?.values ?? gridOf(w).map(() => null);
}

/** The seconds of the window in which the monitor was reading: averages are over these. */
export async function watched(w: Window): Promise<number> {
  return observed(gridOf(w), [await readings(w)], w);
}
