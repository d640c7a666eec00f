// The form of a panel.
import { useState } from "react";
import type { Panel, PanelKind } from "../api/types";
import { QueryField } from "../explore/query-field";
import { kinds, units } from "./document";

interface Props {
  /** The title of the form: "New panel". */
  heading: string;
  panel: Panel;
  /** Also asks for the name of a new dashboard. */
  name?: string;
  save: (panel: Panel, name: string) => Promise<void>;
  cancel: () => void;
}

export function PanelForm({ heading, panel, name, save, cancel }: Props) {
  const [p, setPanel] = useState(panel);
  const [dashboard, setDashboard] = useState(name ?? "");
  const [failed, setFailed] = useState("");
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<Panel>) => setPanel((old) => ({ ...old, ...change }));
  const submit = async () => {
    if (p.query.trim() === "") return setFailed("The panel needs a query.");
    setBusy(true);
    try {
      await save({ ...p, title: p.title.trim(), query: p.query.trim() }, dashboard.trim());
    } catch (e) {
      setFailed(e instanceof Error ? e.message : String(e));
      setBusy(false);
    }
  };
  return (
    <form
      className="card panel-form"
      aria-label={heading}
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <h2>{heading}</h2>
      {name !== undefined && (
        <label>
          Dashboard
          <input className="text-input" required maxLength={100} value={dashboard} onChange={(e) => setDashboard(e.target.value)} autoFocus />
        </label>
      )}
      <label>
        Title
        <input className="text-input" required maxLength={100} value={p.title} onChange={(e) => set({ title: e.target.value })} autoFocus={name === undefined} />
      </label>
      <div>
        <span className="label" aria-hidden="true">
          Query (PromQL)
        </span>
        <QueryField label="Query (PromQL)" hint="sum by (process) (rate(tee_syscalls_total[1m]))" value={p.query} onChange={(query) => set({ query })} onRun={() => void submit()} />
      </div>
      <div className="row">
        <label>
          Drawn as
          <select value={p.kind} onChange={(e) => set({ kind: e.target.value as PanelKind })}>
            {Object.entries(kinds).map(([k, label]) => (
              <option key={k} value={k}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          Unit of the values
          <select value={p.unit} onChange={(e) => set({ unit: e.target.value })}>
            {Object.entries(units).map(([u, label]) => (
              <option key={u} value={u}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </div>
      {failed && (
        <p className="problem" role="alert">
          {failed}
        </p>
      )}
      <div className="row">
        <button type="submit" className="button" disabled={busy}>
          Save
        </button>
        <button type="button" className="text-button" onClick={cancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}
