// A link to another place of the page: a real one, so it can be opened in a new tab, copied, and
// reached with the keyboard.
import type { CSSProperties, ReactNode } from "react";
import { formatPlace, type Place } from "../state/place";
import { move, usePlace } from "../state/use-place";

interface Props {
  to: Partial<Place>;
  children?: ReactNode;
  className?: string;
  style?: CSSProperties;
  current?: boolean;
  /** Its name if it has no text. */
  label?: string;
}

export function PlaceLink({ to, children, className, style, current, label }: Props) {
  const place = usePlace();
  return (
    <a
      href={formatPlace({ ...place, ...to }) || "?"}
      className={className}
      style={style}
      aria-label={label}
      title={label}
      aria-current={current ? "page" : undefined}
      onClick={(e) => {
        if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
        e.preventDefault();
        move(to);
        if (to.page) window.scrollTo(0, 0);
      }}
    >
      {children}
    </a>
  );
}
