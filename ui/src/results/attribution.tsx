// What explains the difference between the arms: a tree for each comparison.
import { getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { ResultExplanation } from "../api/types";
import { Picture } from "../explain/picture";
import { Tree, useOpen } from "../explain/tree";
import "../explain/explain.css";
import { Problem } from "../frame/problem";

/** The trees of a document served by the call: of one result, or of several. */
export function Attribution({ document }: { document: string }) {
  const [path, ids] = document.split("?", 2);
  const call = `${path}/explanation${ids ? `?${ids}` : ""}`;
  const explanation = useResource<ResultExplanation>(call, (s) => getDocument(call, s));
  const [open, toggle] = useOpen();
  if (explanation.error && !explanation.data) return <Problem message={explanation.error} retry={explanation.retry} />;
  const trees = (explanation.data?.trees ?? []).filter((t) => (t.rows ?? []).length > 0);
  return trees.map((t) => (
    <section key={`${t.subject} ${t.baseline} ${t.case}`}>
      <h3>
        {t.subject} against {t.baseline}, {t.case}
      </h3>
      {t.tee && <p>{t.tee.title}</p>}
      <Picture trees={[{ tree: t }]} />
      <Tree tree={t} open={open} toggle={toggle} />
    </section>
  ));
}
