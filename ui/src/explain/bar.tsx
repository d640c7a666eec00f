// A share of time as a bar, with its interval as a line across the end.
import type { ExplainAmount } from "../api/types";
import type { Kind } from "./rows";

interface Props {
  amount: ExplainAmount;
  scale: { min: number; max: number };
  /** Unexplained time is drawn hatched. */
  kind: Kind;
}

/** The number is next to it: the bar is for eyes only. */
export function ShareBar({ amount, scale, kind }: Props) {
  const at = (v: number) => Math.max(0, Math.min(100, ((v - scale.min) / (scale.max - scale.min)) * 100));
  const between = (a: number, b: number) => ({ left: `${at(Math.min(a, b))}%`, width: `${Math.abs(at(b) - at(a))}%` });
  return (
    <span className="share-bar" aria-hidden="true">
      <span className={`share-fill share-${kind}`} style={between(0, amount.value)} />
      <span className="share-range" style={between(amount.low, amount.high)} />
      {scale.min < 0 && <span className="share-zero" style={{ left: `${at(0)}%` }} />}
    </span>
  );
}
