// The findings of the window as a lane above the page: when, and a way to each.
import { useMachine } from "../state/machine";
import { marksOf } from "../charts/marks";
import { usePlace } from "../state/use-place";
import { formatMoment } from "../format/time";
import { PlaceLink } from "./link";

/** The levels in the order of the legend. */
const levels = ["critical", "warning", "info"] as const;

/** Pages that show the window of the top bar. */
const timed = ["now", "processes", "tee", "machine", "explore"];

export function Lane() {
  const { page } = usePlace();
  const { annotations, window: w } = useMachine();
  if (!timed.includes(page)) return null;
  const marks = marksOf(annotations.data, w);
  const at = (t: number) => ((t - w.from) / (w.to - w.from)) * 100;
  const shown = levels.filter((l) => marks.some((m) => m.level === l));
  return (
    <>
      <div className="lane" role={marks.length > 0 ? "group" : undefined} aria-label={marks.length > 0 ? "Findings of this window" : undefined}>
        {marks.map((m) => (
          <PlaceLink
            key={m.id}
            to={{ problem: m.id }}
            className={`lane-mark lane-${m.level}`}
            style={{ left: `${at(m.from)}%`, width: `${at(m.to) - at(m.from)}%` }}
            label={`${m.level === "info" ? "note" : m.level}, ${formatMoment(m.from, w.to - w.from)} to ${formatMoment(m.to, w.to - w.from)}: ${m.title}`}
          />
        ))}
      </div>
      {shown.length > 0 && (
        <p className="lane-legend small dim">
          Findings in this time:
          {shown.map((l) => (
            <span key={l}>
              <span className={`lane-key lane-${l}`} aria-hidden="true" /> {l === "info" ? "note" : l}
            </span>
          ))}
        </p>
      )}
    </>
  );
}
