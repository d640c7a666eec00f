// Names of processes.
import { labelValues } from "../api/client";
import { useResource } from "../api/resource";
import { own, select } from "../query/promql";
import { useMachine } from "./machine";

const week = 7 * 86400;

/** The process names of the last week: only processes can be explained, not
 * machines or devices. */
export function useProcesses(wanted: boolean): Set<string> {
  const { window: w } = useMachine();
  const selector = select("tee_process_cpu_seconds_total", own(w));
  const names = useResource(wanted && w.instance !== "" ? `${selector} ${Math.floor(w.to / 60)}` : null, (s) => labelValues("process", selector, { ...w, from: w.to - week }, s));
  return new Set(names.data ?? []);
}
