// The picture of a tree: all the time as one bar, the TEE's activity in one hue, and unexplained
// time hatched. Several trees are drawn to one scale. A selected part shows its contents, as an
// icicle.
import { useState } from "react";
import type { ExplainTree } from "../api/types";
import { formatValue } from "../format/number";
import type { Per } from "../state/place";
import { formatTime } from "./amount";
import { icicleOf, segmentsOf, type Segment } from "./rows";

interface Props {
  /** A name is shown if there are several. */
  trees: { name?: string; tree: ExplainTree }[];
  /** Called with the row under the pointer, "" for none. */
  light?: (id: string) => void;
}

/** The parts that a legend names. */
const mostNamed = 8;

/** A part wider than this has its name inside. */
const named = 0.12;

export function Picture({ trees, light }: Props) {
  const [chosen, choose] = useState("");
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
          {light ? (
            <>
              <div className="picture-bar" role="group" aria-label={`Parts of the time of ${tree.subject}`} onPointerLeave={() => light("")}>
                {segments.map((s) => (
                  <button
                    key={s.id}
                    type="button"
                    className={`share-${s.kind}`}
                    data-segment={s.id}
                    aria-label={`${s.title}: ${formatValue(s.share, "ratio")}`}
                    aria-pressed={chosen === s.id}
                    title={`${s.title}: ${formatValue(s.share, "ratio")}`}
                    style={{ width: `${(s.time / length) * 100}%` }}
                    onPointerEnter={() => light(s.id)}
                    onFocus={() => light(s.id)}
                    onBlur={() => light("")}
                    onClick={() => choose(chosen === s.id ? "" : s.id)}
                  >
                    {s.time / length > named && <span>{s.title}</span>}
                  </button>
                ))}
              </div>
              <Icicle tree={tree} id={chosen} />
            </>
          ) : (
            <div className="picture-bar" role="img" aria-label={segments.map((s) => `${s.title} ${formatValue(s.share, "ratio")}`).join(", ")}>
              {segments.map((s) => (
                <span key={s.id} className={`share-${s.kind}`} data-segment={s.id} title={`${s.title}: ${formatValue(s.share, "ratio")}`} style={{ width: `${(s.time / length) * 100}%` }} />
              ))}
            </div>
          )}
          <Legend segments={segments} />
        </figure>
      ))}
    </div>
  );
}

/** The contents of the selected part, level by level. */
function Icicle({ tree, id }: { tree: ExplainTree; id: string }) {
  const row = tree.rows?.find((r) => r.id === id);
  if (!row) return null;
  const levels = icicleOf(row);
  const words = (title: string, time: number) => `${title}: ${formatValue(time, "seconds")} per ${tree.per}, ${formatValue(time / row.time.value, "ratio")} of ${row.title}`;
  return (
    <div className="icicle" data-icicle={id}>
      {levels.map((level, i) => (
        <ul key={i} className="icicle-level" aria-label={i === 0 ? row.title : `Parts of ${row.title}, level ${i}`}>
          {level.map((c) => (
            <li key={c.id} data-cell={c.id} title={words(c.title, c.time)} style={{ left: `${c.left * 100}%`, width: `${c.width * 100}%` }}>
              <span className={`icicle-mark share-${c.kind}`} />
              <span className={c.width > named ? "icicle-name" : "hidden"}>{words(c.title, c.time)}</span>
            </li>
          ))}
        </ul>
      ))}
      {levels.length === 1 && <p className="note">{row.reason ?? "No breakdown of this part is available."}</p>}
    </div>
  );
}

function Legend({ segments }: { segments: Segment[] }) {
  const largest = segments.toSorted((a, b) => b.share - a.share).slice(0, mostNamed);
  return (
    <ul className="key" aria-hidden="true">
      {largest.map((s) => (
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
