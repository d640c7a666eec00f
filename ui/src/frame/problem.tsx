// What went wrong, and a button to try again.
import { unanswered, useLost } from "../api/reach";
import { plainMessage } from "../words/message";
import { IconWarning } from "./icons";

export function Problem({ message, retry, stale = false }: { message: string; retry: () => void; stale?: boolean }) {
  const lost = useLost();
  // The banner of the page says this once.
  if (lost !== null && message === unanswered) return null;
  return (
    <div className="problem" role="alert">
      <IconWarning />
      <span>
        {plainMessage(message)}
        {stale && " The page shows older data."}
      </span>
      <button type="button" className="text-button" onClick={retry}>
        Try again
      </button>
    </div>
  );
}
