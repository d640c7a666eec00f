// Badges for numbers that are estimates or missing, with details behind them.
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
  /** The metrics shown, whose sources the remarks are about. */
  metrics: string[];
  /** The monitor's warnings about the values. */
  warnings: string[];
  /** Details are open from the start. */
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
        <PlaceLink to={goTo(place, "settings")}>Sources and their settings</PlaceLink>
      </p>
    </details>
  );
}
