// Whether this browser may change settings, and the monitor's sentence on how it can.
import { getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { Authority } from "../api/types";
import { useMachine } from "../state/machine";
import { Sentence } from "../words/term";

/** What the monitor says; null until it has answered. */
export function useAuthority(): Authority | null {
  const { tick } = useMachine();
  return useResource<Authority>(`authority ${tick}`, (s) => getDocument<Authority>("authority", s)).data;
}

/** What to type where nothing can be changed. */
export function Locked({ authority }: { authority: Authority | null }) {
  if (!authority?.locked) return null;
  return (
    <p className="note" data-locked="">
      <Sentence text={authority.locked} />
    </p>
  );
}
