// What went wrong, and the way to try again.
import { IconWarning } from "./icons";

export function Problem({ message, retry, stale = false }: { message: string; retry: () => void; stale?: boolean }) {
  return (
    <div className="problem" role="alert">
      <IconWarning />
      <span>
        {message}
        {stale && " What is shown is from before."}
      </span>
      <button type="button" className="text-button" onClick={retry}>
        Try again
      </button>
    </div>
  );
}
