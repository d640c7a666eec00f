// Ctrl-K: a field that leads to any page, process or open finding.
import { lazy, Suspense, useEffect, useState } from "react";
import { Guard } from "./guard";
import { IconSearch } from "./icons";

const Palette = lazy(() => import("./palette-list"));

export function PaletteButton() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey) return;
      e.preventDefault();
      setOpen((o) => !o);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button type="button" className="icon-button" aria-label="Go to (Ctrl-K)" title="Go to a page, process or finding (Ctrl-K)" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        <IconSearch />
      </button>
      {open && (
        <Guard what="The list">
          <Suspense fallback={null}>
            <Palette close={() => setOpen(false)} />
          </Suspense>
        </Guard>
      )}
    </>
  );
}
