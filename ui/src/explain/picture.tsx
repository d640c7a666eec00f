// The picture of a tree: the whole time as one bar, what the TEE does in one hue, and what
// nothing explains hatched. Several trees are drawn to one scale.
import type { ExplainTree } from "../api/types";
import { formatValue } from "../format/number";
import type { Per } from "../state/place";
import { formatTime } from "./amount";
import { segmentsOf, type Segment } from "./rows";

interface Props {
  /** A name is shown where there are several. */
  trees: { name?: string; tree: ExplainTree }[];
}

/** The parts that a legend names. */
const mostNamed = 8;

export function Picture({ trees }: Props) {
  const drawn = trees.map(({ name, tree }) => ({ name, tree, segments: segmentsOf(tree) }));
  const length = Math.max(...drawn.map((d) => sum(d.segments)));
  if (!(length > 0)) return null;
  return (
    <div className="pictures">
      {drawn.map(({ name, tree, segments }, i) => (
        <figure key={name ?? i} className="picture" data-picture={tree.subject}>
          {name && (
            <figcaption>
              <strong>{name}</strong> <span className="dim small">{formatTime(tree.active, tree.per as Per)}</span>
            </figcaption>
          )}
          <div className="picture-bar" role="img" aria-label={segments.map((s) => `${s.title} ${formatValue(s.share, "ratio")}`).join(", ")}>
            {segments.map((s) => (
              <span key={s.id} className={`share-${s.kind}`} data-segment={s.id} title={`${s.title}: ${formatValue(s.share, "ratio")}`} style={{ width: `${(s.time / length) * 100}%` }} />
            ))}
          </div>
          <Legend segments={segments} />
        </figure>
      ))}
    </div>
  );
}

function Legend({ segments }: { segments: Segment[] }) {
  const named = segments.toSorted((a, b) => b.share - a.share).slice(0, mostNamed);
  return (
    <ul className="key" aria-hidden="true">
      {named.map((s) => (
        <li key={s.id}>
          <span className={`share-fill share-${s.kind}`} />
          {s.title} <b>{formatValue(s.share, "ratio")}</b>
        </li>
      ))}
    </ul>
  );
}

function sum(segments: Segment[]): number {
  return segments.reduce((n, s) => n + s.time, 0);
}
