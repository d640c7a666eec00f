// Live or paused: whether the page keeps refreshing.
import { useLost } from "../api/reach";
import { home } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { IconPause, IconPlay } from "./icons";

export function LiveButton() {
  const { refresh } = usePlace();
  const live = refresh !== 0;
  const lost = useLost() !== null;
  const title = !live ? "Paused: the page shows the last data that it read" : lost ? "The monitor does not answer; the page keeps asking" : `Refreshes every ${refresh} s`;
  return (
    <button type="button" className={live && !lost ? "live-button live" : "live-button"} aria-pressed={!live} title={title} onClick={() => move({ refresh: live ? 0 : home.refresh }, "replace")}>
      {live ? <IconPause /> : <IconPlay />}
      <span className="hidden">Pause: </span>
      {!live ? "paused" : lost ? "waiting" : "live"}
    </button>
  );
}
