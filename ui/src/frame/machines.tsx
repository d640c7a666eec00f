// Which machine the page is about: its name in the top bar and, where there are several, the way to the others.
import { lazy, Suspense, useState } from "react";
import { Guard } from "./guard";
import { useMachine } from "../state/machine";
import { several } from "../words/fleet";

const MachineList = lazy(() => import("./machine-list"));

export function MachineName() {
  const { platform, fleet } = useMachine();
  const [open, setOpen] = useState(false);
  const p = platform.data;
  const name = p?.hostname ?? "teescope";
  const about = p ? [p.os, p.kernel, p.cpuModel].filter(Boolean).join(", ") : "";
  // A machine that is not known must have a way back, too.
  if (!several(fleet.data) && !platform.error) return <h1 title={about}>{name}</h1>;
  return (
    <>
      <h1>
        <button type="button" className={p?.elsewhere ? "machine-button elsewhere" : "machine-button"} title={about} aria-haspopup="dialog" onClick={() => setOpen(true)}>
          <span>{name}</span>
          <span className="hidden">: choose another machine</span>
        </button>
      </h1>
      {open && (
        <Guard what="The list">
          <Suspense fallback={null}>
            <MachineList close={() => setOpen(false)} />
          </Suspense>
        </Guard>
      )}
    </>
  );
}
