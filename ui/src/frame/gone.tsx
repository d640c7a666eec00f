// The message about a monitor that does not answer: once, above everything.
import { useLost } from "../api/reach";
import { formatMoment } from "../format/time";
import { useMachine } from "../state/machine";
import { IconWarning } from "./icons";

export function Gone() {
  const since = useLost();
  const { refresh, platform } = useMachine();
  if (since === null) return null;
  return (
    <div className="problem gone" role="alert">
      <IconWarning />
      <span>
        The monitor has not answered since {formatMoment(since, 0)}. Is it still running?
        {platform.data !== null && " The page shows older data."}
      </span>
      <button type="button" className="text-button" onClick={() => (refresh(), platform.retry())}>
        Try again
      </button>
    </div>
  );
}
