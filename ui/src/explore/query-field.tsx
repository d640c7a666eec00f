// A field for a query: plain text until the editor has loaded.
import { lazy, Suspense, type RefObject } from "react";
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
  const { value, onChange, onRun, label, hint } = props;
  const plain = (
    <textarea
      className="query"
      aria-label={label}
      aria-busy="true"
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
  return (
    <Suspense fallback={plain}>
      <Editor {...props} />
    </Suspense>
  );
}
