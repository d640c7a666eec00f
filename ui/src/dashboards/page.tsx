// The users' own panels, stored by the monitor.
import { useRef, useState, type ReactNode } from "react";
import { AnswerError, getDashboards, keepDashboards, type KeptDashboards } from "../api/client";
import { useResource } from "../api/resource";
import type { Dashboard, Panel } from "../api/types";
import { emptyPanel, exportText, freeName, importText, moved, withPanel, withPanels } from "./document";
import "./dashboards.css";
import "../explore/explore.css";
import { PanelForm } from "./form";
import { UserPanel } from "./panels";
import { PlaceLink } from "../frame/link";
import { Locked, useAuthority } from "../frame/locked";
import { Problem } from "../frame/problem";
import { save } from "../state/clipboard";
import { move, usePlace } from "../state/use-place";
import { count } from "../words/verdict";

/** The open form: a new dashboard, or a new or existing panel of one. */
type Editing = "dashboard" | { of: string; panel: Panel | null } | null;

const changedMeanwhile = "Nothing was saved, because somebody else changed the dashboards. Check the current version, then try again.";

export default function DashboardsPage() {
  const place = usePlace();
  const read = useResource<KeptDashboards>("dashboards", getDashboards);
  // The result of the last change, or why it was refused.
  const [newer, setNewer] = useState<KeptDashboards | null>(null);
  const authority = useAuthority();
  const may = authority?.may === true;
  const [editing, setEditing] = useState<Editing>(null);
  const [arranging, setArranging] = useState(false);
  const [failed, setFailed] = useState("");
  const busy = useRef(false);
  const kept = newer ?? read.data;
  const own = kept?.dashboards ?? [];
  const locked = kept?.locked ?? [];
  const all = [...own, ...locked];
  const shown = all.find((d) => d.name === place.subject) ?? all[0];
  const mine = shown !== undefined && own.includes(shown);

  /** Changes the dashboards, unless the monitor's version is no longer the one shown. */
  const change = async (f: (list: Dashboard[], taken: string[]) => Dashboard[]) => {
    if (!kept) return;
    try {
      setNewer(await keepDashboards(f(own, all.map((d) => d.name)), kept.tag));
    } catch (e) {
      if (!(e instanceof AnswerError && e.status === 412)) throw e;
      setNewer(await getDashboards());
      if (shown) move({ subject: shown.name }, "replace"); // another one may be the first now
      throw new Error(changedMeanwhile, { cause: e });
    }
    setFailed("");
  };
  const attempt = (f: (list: Dashboard[]) => Dashboard[]) => {
    // A second click meant the layout before the first one.
    if (busy.current) return;
    busy.current = true;
    change(f)
      .catch((e: unknown) => setFailed(e instanceof Error ? e.message : String(e)))
      .finally(() => (busy.current = false));
  };
  const ofShown = (f: (panels: Panel[]) => Panel[]) => (list: Dashboard[]) => withPanels(list, shown?.name ?? "", f);

  const savePanel = async (p: Panel, name: string) => {
    if (editing === "dashboard") {
      let made = name;
      await change((list, taken) => [...list, { name: (made = freeName(name, taken)), panels: [p] }]);
      move({ subject: made });
    } else if (editing) await change((list) => withPanel(list, editing.of, editing.panel, p));
    setEditing(null);
  };

  const readFile = async (file: File | undefined) => {
    if (!file) return;
    try {
      const list = importText(await file.text());
      let last = "";
      await change((have, taken) => {
        const names = [...taken];
        const fresh = list.map((d) => {
          names.push((last = freeName(d.name, names)));
          return { ...d, name: last };
        });
        return [...have, ...fresh];
      });
      move({ subject: last });
    } catch (e) {
      setFailed(e instanceof Error ? e.message : String(e));
    }
  };

  return (
    <>
      <div className="section-head">
        <h2>{shown?.name ?? "Dashboards"}</h2>
        <p>{shown ? `${count(shown.panels?.length ?? 0, "panel")}${mine ? "" : ", from the configuration file (read-only here)"}.` : "Your own panels, stored by this monitor."}</p>
      </div>
      {all.length > 1 && (
        <nav className="tabs ranges" aria-label="Dashboards">
          {all.map((d) => (
            <PlaceLink key={d.name} to={{ subject: d.name }} current={d === shown}>
              {d.name}
            </PlaceLink>
          ))}
        </nav>
      )}
      {read.error && <Problem message={read.error} retry={read.retry} stale={kept !== null} />}
      {failed && (
        <p className="problem" role="alert">
          {failed}
          <button type="button" className="text-button" onClick={() => setFailed("")}>
            Close
          </button>
        </p>
      )}
      {kept && editing === null && (
        <div className="row controls">
          {mine && (
            <>
              <button type="button" className="button" disabled={!may} onClick={() => setEditing({ of: shown.name, panel: null })}>
                Add a panel
              </button>
              <button type="button" className="text-button" aria-pressed={arranging} disabled={!may} onClick={() => setArranging((a) => !a)}>
                {arranging ? "Done arranging" : "Arrange and edit"}
              </button>
            </>
          )}
          <button type="button" className={shown ? "text-button" : "button"} disabled={!may} onClick={() => setEditing("dashboard")}>
            New dashboard
          </button>
          {all.length > 0 && (
            <button type="button" className="text-button" onClick={() => save("teescope-dashboards.json", new Blob([exportText(all)], { type: "application/json" }))}>
              Export all
            </button>
          )}
          <label className="text-button file-button">
            Import
            <input
              type="file"
              disabled={!may}
              accept="application/json,.json"
              aria-label="Import dashboards from a file"
              onChange={(e) => {
                void readFile(e.target.files?.[0]);
                e.target.value = "";
              }}
            />
          </label>
          {mine && arranging && (
            <button type="button" className="text-button" onClick={() => window.confirm(`Delete the dashboard ${shown.name}?`) && attempt((list) => list.filter((d) => d.name !== shown.name))}>
              Delete this dashboard
            </button>
          )}
        </div>
      )}
      {kept && <Locked authority={authority} />}
      {editing === "dashboard" && <PanelForm heading="New dashboard, with its first panel" panel={emptyPanel} name="" save={savePanel} cancel={() => setEditing(null)} />}
      {editing && editing !== "dashboard" && <PanelForm heading={editing.panel ? `Panel ${editing.panel.title}` : "New panel"} panel={editing.panel ?? emptyPanel} save={savePanel} cancel={() => setEditing(null)} />}
      {kept && !shown && editing === null && <p className="empty">No dashboards yet. A panel is a title, a PromQL query and a chart type.</p>}
      {!kept && !read.error && <p className="empty">Loading the dashboards.</p>}
      <ul className="grid board">
        {(shown?.panels ?? []).map((p, i) => (
          <li key={`${shown?.name} ${i} ${p.kind} ${p.query}`}>
            <UserPanel panel={p} tools={mine && arranging && editing === null ? <Tools panel={p} last={i === (shown?.panels?.length ?? 0) - 1} first={i === 0} edit={() => setEditing({ of: shown.name, panel: p })} shift={(by) => attempt(ofShown((panels) => moved(panels, i, by)))} remove={() => attempt(ofShown((panels) => panels.filter((_, k) => k !== i)))} /> : null} />
          </li>
        ))}
      </ul>
    </>
  );
}

interface ToolProps {
  panel: Panel;
  first: boolean;
  last: boolean;
  edit: () => void;
  shift: (by: -1 | 1) => void;
  remove: () => void;
}

function Tools({ panel: { title }, first, last, edit, shift, remove }: ToolProps) {
  const button = (label: string, text: ReactNode, act: () => void, off = false) => (
    <button type="button" className="icon-button" aria-label={`${label} ${title}`} title={label} disabled={off} onClick={act}>
      {text}
    </button>
  );
  return (
    <span className="panel-tools">
      {button("Move forward", "←", () => shift(-1), first)}
      {button("Move back", "→", () => shift(1), last)}
      {button("Edit", "✎", edit)}
      {button("Delete", "✕", remove)}
    </span>
  );
}
