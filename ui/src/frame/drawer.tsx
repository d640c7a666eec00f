// A dialog at the side of the page, or in its middle. It is not a modal <dialog>: that would cover
// the tooltips and menus of its content.
import { useFocusTrap } from "@mantine/hooks";
import { useEffect, type ReactNode } from "react";
import { IconClose } from "./icons";

interface Props {
  label: string;
  close: () => void;
  /** In the middle of the page instead of at its side. */
  middle?: boolean;
  children: ReactNode;
}

export function Drawer({ label, close, middle = false, children }: Props) {
  const trap = useFocusTrap();
  useEffect(() => {
    const before = document.activeElement;
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <>
      <div className="drawer-shade" onClick={close} />
      <div
        ref={trap}
        role="dialog"
        aria-modal="true"
        aria-label={label}
        tabIndex={-1}
        className={middle ? "drawer drawer-middle" : "drawer"}
        onKeyDown={(e) => {
          // A menu that is open inside closes first; it is elsewhere in the document.
          if (e.key === "Escape" && !e.defaultPrevented && e.currentTarget.contains(e.target as Node)) close();
        }}
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
