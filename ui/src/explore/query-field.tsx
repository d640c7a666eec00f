// A field for a query: plain text until the editor has loaded.
import { lazy, Suspense } from "react";
import "./explore.css";

const Editor = lazy(() => import("./editor"));

export interface QueryFieldProps {
  value: string;
  onChange: (text: string) => void;
  /** Enter was pressed. */
  onRun: (text: string) => void;
  /** What the field is called. */
  label: string;
  hint: string;
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
