// Live or paused: whether the page keeps refreshing.
import { home } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { IconPause, IconPlay } from "./icons";

export function LiveButton() {
  const { refresh } = usePlace();
  const live = refresh !== 0;
  return (
    <button type="button" className={live ? "live-button live" : "live-button"} aria-pressed={!live} title={live ? `Reads anew every ${refresh} s` : "Paused: the page shows what it read last"} onClick={() => move({ refresh: live ? 0 : home.refresh }, "replace")}>
      {live ? <IconPause /> : <IconPlay />}
      <span className="hidden">Pause: </span>
      {live ? "live" : "paused"}
    </button>
  );
}
