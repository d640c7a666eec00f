// The users' dashboards as a document: changes, export and import.
import type { Dashboard, Panel, PanelKind } from "../api/types";

/** The ways to draw a panel, as a user picks them. */
export const kinds: Record<PanelKind, string> = {
  graph: "Graph",
  area: "Graph with tinted area",
  histogram: "Histogram",
  gauge: "Gauge",
  value: "Single value",
  table: "Table",
  heatmap: "Heat map",
  boxplot: "Box plots",
};

/** What a panel's numbers can be. */
export const units: Record<string, string> = {
  "": "a plain number",
  "1/s": "per second",
  ratio: "a ratio, shown in percent",
  cores: "cores, shown in percent of one",
  seconds: "seconds",
  bytes: "bytes",
  "bytes/s": "bytes per second",
};

export const emptyPanel: Panel = { title: "", query: "", unit: "", kind: "graph" };

/** The list with one dashboard changed. Without panels it is removed, since the server stores no
 * empty one. */
export function withPanels(list: Dashboard[], name: string, change: (panels: Panel[]) => Panel[]): Dashboard[] {
  return list.flatMap((d) => {
    if (d.name !== name) return [d];
    const panels = change(d.panels ?? []);
    return panels.length === 0 ? [] : [{ ...d, panels }];
  });
}

/** The list with a panel written into a dashboard: in place of an old one, or at its end if it is
 * new. If somebody else has removed the old panel or the whole dashboard, the panel is added and
 * the dashboard created again, so nobody's work is lost. */
export function withPanel(list: Dashboard[], name: string, old: Panel | null, p: Panel): Dashboard[] {
  if (!list.some((d) => d.name === name)) return [...list, { name, panels: [p] }];
  return withPanels(list, name, (panels) => {
    const at = old ? panels.findIndex((x) => samePanel(x, old)) : -1;
    return at < 0 ? [...panels, p] : panels.with(at, p);
  });
}

/** Whether two panels are equal in everything that a user can set. */
function samePanel(a: Panel, b: Panel): boolean {
  return a.title === b.title && a.query === b.query && a.unit === b.unit && a.kind === b.kind;
}

/** The panel at i trades places with its neighbour. */
export function moved(panels: Panel[], i: number, by: -1 | 1): Panel[] {
  const [here, there] = [panels[i], panels[i + by]];
  if (!here || !there) return panels;
  return panels.map((p, k) => (k === i ? there : k === i + by ? here : p));
}

/** A name not in the list: "Load", "Load 2". */
export function freeName(name: string, taken: string[]): string {
  if (!taken.includes(name)) return name;
  for (let n = 2; ; n++) if (!taken.includes(`${name} ${n}`)) return `${name} ${n}`;
}

/** The text of a file for import. */
export function exportText(list: Dashboard[]): string {
  return JSON.stringify({ dashboards: list }, null, 2) + "\n";
}

/** The dashboards of such a file. An Error states what is wrong and where. The server checks the
 * queries. */
export function importText(text: string): Dashboard[] {
  let doc: unknown;
  try {
    doc = JSON.parse(text);
  } catch (e) {
    throw new Error("This file is not JSON. Choose a file that was exported on this page.", { cause: e });
  }
  const list = isObject(doc) ? doc["dashboards"] : undefined;
  if (!Array.isArray(list)) throw new Error('This file has no list "dashboards". Choose a file that was exported on this page.');
  return list.map((d: unknown, i) => {
    const at = `dashboards[${i}]`;
    if (!isObject(d)) throw new Error(`${at} is not an object`);
    const panels = d["panels"];
    if (!Array.isArray(panels)) throw new Error(`${at}.panels is not a list`);
    return { name: textAt(d, "name", at), panels: panels.map((p: unknown, j) => panelOf(p, `${at}.panels[${j}]`)) };
  });
}

function panelOf(p: unknown, at: string): Panel {
  if (!isObject(p)) throw new Error(`${at} is not an object`);
  const kind = textAt(p, "kind", at);
  if (!Object.hasOwn(kinds, kind)) throw new Error(`${at}.kind is ${kind}; it can be ${Object.keys(kinds).join(", ")}`);
  const unit = p["unit"] === undefined ? "" : textAt(p, "unit", at);
  if (!Object.hasOwn(units, unit)) throw new Error(`${at}.unit is ${unit}; it can be ${Object.keys(units).slice(1).join(", ")} or nothing`);
  return { title: textAt(p, "title", at), query: textAt(p, "query", at), unit, kind: kind as PanelKind };
}

function textAt(o: { [key: string]: unknown }, key: string, at: string): string {
  const v = o[key];
  if (typeof v !== "string") throw new Error(`${at}.${key} is not text`);
  return v;
}

function isObject(v: unknown): v is { [key: string]: unknown } {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}
