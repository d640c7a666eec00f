// A dialog at the side of the page, or in its middle. It is not a modal <dialog>: that would cover
// the tooltips and menus of its content.
import { useFocusTrap, useMergedRef } from "@mantine/hooks";
import { useLayoutEffect, useRef, type ReactNode } from "react";
import { IconClose } from "./icons";

interface Props {
  label: string;
  close: () => void;
  /** In the middle of the page instead of at its side. */
  middle?: boolean;
  children: ReactNode;
}

export function Drawer({ label, close, middle = false, children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const ref = useMergedRef(box, useFocusTrap());
  useLayoutEffect(() => {
    const before = document.activeElement;
    // The trap takes the focus in a task of its own, which a busy page runs after the next key.
    box.current?.focus({ preventScroll: true });
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  useLayoutEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      // A menu that is open inside closes first; it is elsewhere in the document. What had the focus may be gone, and then
      // the body has it.
      const inside = e.target === document.body || box.current?.contains(e.target as Node);
      if (e.key === "Escape" && !e.defaultPrevented && inside) close();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [close]);
  return (
    <>
      <div className="drawer-shade" onClick={close} />
      <div
        ref={ref}
        role="dialog"
        aria-modal="true"
        aria-label={label}
        tabIndex={-1}
        className={middle ? "drawer drawer-middle" : "drawer"}
      >
        {!middle && (
          <button type="button" className="icon-button drawer-close" aria-label="Close" onClick={close}>
            <IconClose />
          </button>
        )}
        {children}
      </div>
    </>
  );
}
