// A problem in a drawer next to the page it was found on.
import { useLost } from "../api/reach";
import { Drawer } from "../frame/drawer";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { useProcesses } from "../state/processes";
import { move, usePlace } from "../state/use-place";
import { FindingDetail } from "./detail";
import { subjectOf } from "../words/problem";
import "./findings.css";
import { useLinked } from "./linked";
import { useSilences } from "./silences";

export default function ProblemDrawer({ id }: { id: string }) {
  const place = usePlace();
  const { findings } = useMachine();
  const known = findings.data?.findings?.find((f) => f.id === id);
  const linked = useLinked(id, findings.data === null || known !== undefined);
  const f = known ?? linked.data?.find((r) => r.id === id);
  const rule = findings.data?.rules?.find((r) => r.name === f?.rule);
  const lost = useLost() !== null;
  const silences = useSilences();
  const processes = useProcesses(true);
  return (
    <Drawer label={f?.title ?? "Finding"} close={() => move({ problem: "" })}>
      {lost && <p className="note note-warn">The monitor does not answer, so this finding may be out of date.</p>}
      {linked.error && <Problem message={linked.error} retry={linked.retry} />}
      {f ? (
        <>
          <FindingDetail finding={f} title={rule?.title ?? f.rule} doc={rule?.doc} silences={silences.data ?? []} explainable={processes.has(subjectOf(f))} />
          <p>
            <PlaceLink to={{ ...goTo(place, "findings", f.id) }}>All findings</PlaceLink>
          </p>
        </>
      ) : (
        <p className="empty">{linked.data && !linked.loading ? "The finding of this link is no longer on record." : "Loading the finding."}</p>
      )}
    </Drawer>
  );
}
