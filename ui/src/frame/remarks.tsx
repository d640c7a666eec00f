// Badges for numbers that are estimates or missing; open, they say it in full.
import type { Source } from "../api/types";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { sourcesOf } from "../state/sources";
import { usePlace } from "../state/use-place";
import { remarksOf } from "../words/remarks";
import { Sentence } from "../words/term";
import { IconInfo, IconWarning } from "./icons";
import { PlaceLink } from "./link";

interface Props {
  /** The metrics that are shown: what is said of their sources belongs here. */
  metrics: string[];
  /** What the monitor said beside the values. */
  warnings: string[];
  /** Says it in full from the start. */
  open?: boolean;
}

export function Remarks({ metrics, warnings, open = false }: Props) {
  const place = usePlace();
  const { sources, window: w } = useMachine();
  const behind: Source[] = sourcesOf(sources.data, metrics).filter((s) => s.state !== "not here" && s.state !== "off");
  const remarks = remarksOf(behind, warnings, w.live);
  if (remarks.length === 0) return null;
  return (
    <details className="remarks" open={open}>
      <summary>
        {remarks.map((r) => (
          <span key={r.short} className={`chip ${r.kind === "other" ? "" : "chip-warn"}`} data-remark={r.kind}>
            {r.kind === "blind" ? <IconWarning /> : <IconInfo />} {r.short}
          </span>
        ))}
      </summary>
      {remarks.flatMap((r) => r.text).map((t) => (
        <p key={t} className="note">
          <Sentence text={t} />
        </p>
      ))}
      <p className="note">
        <PlaceLink to={goTo(place, "overhead")}>What each source counts, and its settings</PlaceLink>
      </p>
    </details>
  );
}
