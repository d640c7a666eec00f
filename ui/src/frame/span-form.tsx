// Two times chosen by the reader.
import { useState, type ReactNode } from "react";
import { toLocalInput } from "../format/time";
import { shortest, type Span } from "../state/place";

interface Props {
  span: Span;
  /** The label of the button. */
  label: string;
  choose: (span: Span) => void;
  /** Next to the button. */
  children?: ReactNode;
}

/** Why a window cannot be shown; "" if it can. */
export function wrongSpan({ from, to }: Span): string {
  if (!Number.isFinite(from) || !Number.isFinite(to)) return "Enter both times.";
  if (to < from) return "The end is before the beginning. Swap them, or choose a later end.";
  if (to - from < shortest) return `The window is shorter than ${shortest} s. Choose a later end.`;
  return "";
}

export function SpanForm({ span, label, choose, children }: Props) {
  const [wrong, setWrong] = useState("");
  return (
    <form
      className="custom-range"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        const form = new FormData(e.currentTarget);
        const [from, to] = ["from", "to"].map((n) => new Date(String(form.get(n))).getTime() / 1000) as [number, number];
        const why = wrongSpan({ from, to });
        setWrong(why);
        if (why === "") choose({ from, to });
      }}
    >
      <label>
        From <input type="datetime-local" name="from" step="1" required defaultValue={toLocalInput(span.from)} />
      </label>
      <label>
        To <input type="datetime-local" name="to" step="1" required defaultValue={toLocalInput(span.to)} aria-invalid={wrong !== ""} />
      </label>
      {wrong && (
        <p className="note note-warn" role="alert">
          {wrong}
        </p>
      )}
      <div className="row">
        <button type="submit" className="button">
          {label}
        </button>
        {children}
      </div>
    </form>
  );
}
