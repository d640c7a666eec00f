// A dialog with a field and the choices that match it, for the keyboard first.
import { useState } from "react";
import type { Place } from "../state/place";
import { move } from "../state/use-place";
import { Drawer } from "./drawer";

export interface Choice {
  /** What it is, next to its text. */
  kind: string;
  text: string;
  to: Partial<Place>;
  /** A page elsewhere, which opens beside this one instead. */
  href?: string;
  current?: boolean;
}

interface Props {
  label: string;
  /** What can be typed. */
  field: string;
  text: string;
  setText: (text: string) => void;
  choices: Choice[];
  /** Said instead of no choice. */
  none: string;
  close: () => void;
}

export function Chooser({ label, field, text, setText, choices, none, close }: Props) {
  const [at, setAt] = useState(0);
  const chosen = Math.min(at, choices.length - 1);
  const go = (c: Choice | undefined) => {
    if (!c) return;
    close();
    if (c.href) {
      window.open(c.href, "_blank", "noopener,noreferrer");
      return;
    }
    move(c.to);
    if (c.to.page) window.scrollTo(0, 0);
  };
  return (
    <Drawer label={label} close={close} middle>
      <input
        className="palette-input"
        role="combobox"
        aria-label={field}
        aria-expanded={choices.length > 0}
        aria-controls="palette-choices"
        aria-activedescendant={choices.length > 0 ? `palette-${chosen}` : undefined}
        placeholder={field}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        value={text}
        onChange={(e) => (setText(e.target.value), setAt(0))}
        onKeyDown={(e) => {
          const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
          if (e.key === "Enter") go(choices[chosen]);
          else if (by !== undefined && choices.length > 0) setAt((chosen + by + choices.length) % choices.length);
          else return;
          e.preventDefault();
        }}
      />
      {choices.length === 0 && <p className="dim">{none}</p>}
      {choices.length > 0 && (
        <ul id="palette-choices" className="palette" role="listbox" aria-label="Choices">
          {choices.map((c, i) => (
            <li key={`${c.kind} ${c.text} ${i}`} id={`palette-${i}`} role="option" aria-selected={i === chosen} aria-current={c.current ? "true" : undefined} onPointerMove={() => setAt(i)} onClick={() => go(c)}>
              <span>{c.text}</span> <span className="dim small">{c.kind}</span>
            </li>
          ))}
        </ul>
      )}
    </Drawer>
  );
}
