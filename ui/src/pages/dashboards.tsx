// Panels of the users' own, kept by the monitor.
import { useState, type ReactNode } from "react";
import { getDocument, keepDashboards } from "../api/client";
import { useResource } from "../api/resource";
import type { Dashboard, Dashboards, Panel } from "../api/types";
import { save } from "../charts/menu";
import { emptyPanel, exportText, freeName, importText, moved, withPanels } from "../dashboards/document";
import "../dashboards/dashboards.css";
import "../explore/explore.css";
import { PanelForm } from "../dashboards/form";
import { UserPanel } from "../dashboards/panels";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { goTo } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { count } from "../words/verdict";

/** What is being written: a new dashboard, a new panel, or the panel at an index. */
type Editing = "dashboard" | "panel" | number | null;

export default function DashboardsPage() {
  const place = usePlace();
  const kept = useResource<Dashboards>("dashboards", (s) => getDocument("dashboards", s));
  const [editing, setEditing] = useState<Editing>(null);
  const [arranging, setArranging] = useState(false);
  const [failed, setFailed] = useState("");
  const own = kept.data?.dashboards ?? [];
  const locked = kept.data?.locked ?? [];
  const all = [...own, ...locked];
  const shown = all.find((d) => d.name === place.subject) ?? all[0];
  const mine = shown !== undefined && own.includes(shown);

  /** Changes what the monitor keeps now, which another browser may have changed since. */
  const change = async (f: (list: Dashboard[], taken: string[]) => Dashboard[]) => {
    const now = await getDocument<Dashboards>("dashboards");
    const taken = [...(now.dashboards ?? []), ...(now.locked ?? [])].map((d) => d.name);
    await keepDashboards({ dashboards: f(now.dashboards ?? [], taken) });
    setFailed("");
    kept.retry();
  };
  const attempt = (f: (list: Dashboard[], taken: string[]) => Dashboard[]) => {
    change(f).catch((e: unknown) => setFailed(e instanceof Error ? e.message : String(e)));
  };
  const ofShown = (f: (panels: Panel[]) => Panel[]) => (list: Dashboard[]) => withPanels(list, shown?.name ?? "", f);

  const savePanel = async (p: Panel, name: string) => {
    if (editing === "dashboard") {
      let made = name;
      await change((list, taken) => [...list, { name: (made = freeName(name, taken)), panels: [p] }]);
      move({ subject: made });
    } else await change(ofShown((panels) => (editing === "panel" ? [...panels, p] : panels.map((old, i) => (i === editing ? p : old)))));
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
        <p>{shown ? `${count(shown.panels?.length ?? 0, "panel")}${mine ? "" : ", from the configuration file, which the page does not change"}.` : "Panels of your own, kept by this monitor."}</p>
      </div>
      {all.length > 1 && (
        <nav className="tabs ranges" aria-label="Dashboards">
          {all.map((d) => (
            <PlaceLink key={d.name} to={goTo(place, "dashboards", d.name)} current={d === shown}>
              {d.name}
            </PlaceLink>
          ))}
        </nav>
      )}
      {kept.error && <Problem message={kept.error} retry={kept.retry} stale={kept.data !== null} />}
      {failed && (
        <p className="problem" role="alert">
          {failed}
          <button type="button" className="text-button" onClick={() => setFailed("")}>
            Close
          </button>
        </p>
      )}
      {kept.data && editing === null && (
        <div className="row controls">
          {mine && (
            <>
              <button type="button" className="button" onClick={() => setEditing("panel")}>
                Add a panel
              </button>
              <button type="button" className="text-button" aria-pressed={arranging} onClick={() => setArranging((a) => !a)}>
                {arranging ? "Done arranging" : "Arrange and edit"}
              </button>
            </>
          )}
          <button type="button" className={shown ? "text-button" : "button"} onClick={() => setEditing("dashboard")}>
            New dashboard
          </button>
          {all.length > 0 && (
            <button type="button" className="text-button" onClick={() => save("teescope-dashboards.json", "application/json", exportText(all))}>
              Export all
            </button>
          )}
          <label className="text-button file-button">
            Import
            <input
              type="file"
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
      {(editing === "dashboard" || editing === "panel") && <PanelForm key={editing} heading={editing === "dashboard" ? "New dashboard, with its first panel" : "New panel"} panel={emptyPanel} {...(editing === "dashboard" ? { name: "" } : {})} save={savePanel} cancel={() => setEditing(null)} />}
      {kept.data && !shown && editing === null && <p className="empty">There is no dashboard yet. A panel is a title, a PromQL query, and a way to draw it.</p>}
      {!kept.data && !kept.error && <p className="empty">Reading the dashboards.</p>}
      <ul className="grid board">
        {(shown?.panels ?? []).map((p, i) => (
          <li key={`${shown?.name} ${i} ${p.kind} ${p.query}`}>
            {editing === i ? (
              <PanelForm heading={`Panel ${p.title}`} panel={p} save={savePanel} cancel={() => setEditing(null)} />
            ) : (
              <UserPanel panel={p} tools={mine && arranging ? <Tools panel={p} last={i === (shown?.panels?.length ?? 0) - 1} first={i === 0} edit={() => setEditing(i)} shift={(by) => attempt(ofShown((panels) => moved(panels, i, by)))} remove={() => attempt(ofShown((panels) => panels.filter((_, k) => k !== i)))} /> : null} />
            )}
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
