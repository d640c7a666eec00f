// A field for a query: plain text until the editor has loaded, and if it does not load.
import { lazy, Suspense, useEffect, useRef, type RefObject } from "react";
import { Guard } from "../frame/guard";
import "./explore.css";

const Editor = lazy(() => import("./editor"));

export interface QueryFieldProps {
  value: string;
  onChange: (text: string) => void;
  /** Enter was pressed. */
  onRun: (text: string) => void;
  /** The field's name. */
  label: string;
  hint: string;
  /** Set to a function that inserts text at the cursor. */
  insert?: RefObject<((text: string) => void) | null>;
}

export function QueryField(props: QueryFieldProps) {
  return (
    <Guard what="The editor" instead={<Plain {...props} />}>
      <Suspense fallback={<Plain {...props} loading />}>
        <Editor {...props} />
      </Suspense>
    </Guard>
  );
}

function Plain({ value, onChange, onRun, label, hint, insert, loading = false }: QueryFieldProps & { loading?: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    if (!insert) return;
    insert.current = (text) => {
      const f = field.current;
      f?.setRangeText(text, f.selectionStart, f.selectionEnd, "end");
      f?.focus();
      if (f) changed.current(f.value);
    };
    return () => {
      insert.current = null;
    };
  }, [insert]);
  return (
    <textarea
      ref={field}
      className="query"
      aria-label={label}
      aria-busy={loading}
      spellCheck={false}
      value={value}
      placeholder={hint}
      onChange={(e) => onChange(e.target.value)}
      onKeyDown={(e) => {
        if (e.key !== "Enter" || e.shiftKey) return;
        e.preventDefault();
        onRun(value);
      }}
    />
  );
}
