// Findings that are not among the latest ones.
import { asking, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { Findings, FindingsRecord } from "../api/types";
import { useMachine } from "../state/machine";
import { steady } from "../state/window";

/** The finding of a link, if it is not loaded yet: alerts and annotations link to findings that
 * closed long ago. */
export function useLinked(id: string, atHand: boolean) {
  const name = asking("findings", { id });
  return useResource<FindingsRecord[]>(id === "" || atHand ? null : name, async (s) => (await getDocument<Findings>(name, s)).findings ?? []);
}

/** The findings of the page's window, as far as history goes back. */
export function useHistory() {
  const { window: w } = useMachine();
  const name = asking("findings", { ...steady(w), job: w.job, instance: w.instance });
  return useResource<FindingsRecord[]>(w.instance === "" ? null : name, async (s) => (await getDocument<Findings>(name, s)).findings ?? []);
}
