// The drawings of a result, made by the server as in reports. They are inline SVG in the page's
// colours, with a description in words.
import { getDocument } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { Drawings, ReportDrawing } from "../api/types";
import { Problem } from "../frame/problem";

/** The call for the server's rendering of a document, for a case and a metric. */
export function viewCall(document: string, what: "drawings" | "tables", kase: string, metric: string): string {
  const [path, ids] = document.split("?", 2);
  const chosen = new URLSearchParams(ids);
  chosen.set("case", kase);
  chosen.set("metric", metric);
  return `${path}/${what}?${chosen}`;
}

export function useDrawings(document: string, kase: string, metric: string): Resource<Drawings> {
  const call = viewCall(document, "drawings", kase, metric);
  return useResource<Drawings>(call, (s) => getDocument(call, s));
}

export function drawingsOf(drawings: Resource<Drawings>, section: string): ReportDrawing[] {
  return (drawings.data?.drawings ?? []).filter((d) => d.section === section);
}

/** The drawings of a section, or the text to show without one. */
export function Figures({ drawings, section, none }: { drawings: Resource<Drawings>; section: string; none?: string }) {
  const shown = drawingsOf(drawings, section);
  if (drawings.error && !drawings.data) return <Problem message={drawings.error} retry={drawings.retry} />;
  if (shown.length === 0) return none ? <p className="dim">{drawings.data ? none : "Drawing."}</p> : null;
  return shown.map((d) => (
    <figure className="drawing" key={d.name} data-drawing={d.name}>
      <figcaption>{d.title}</figcaption>
      {/* The server escapes every text in its SVG. */}
      <div className="drawing-wide" dangerouslySetInnerHTML={{ __html: d.wide }} />
      <div className="drawing-narrow" dangerouslySetInnerHTML={{ __html: d.narrow }} />
    </figure>
  ));
}
