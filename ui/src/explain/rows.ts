// The rows of cost trees, alone and in pairs.
import type { ExplainAmount, ExplainPart, ExplainRow, ExplainTree } from "../api/types";
import { minus } from "./amount";

/** What each kind of time is called. */
export const parts: Record<ExplainPart, string> = {
  user: "outside of the kernel",
  kernel: "in the kernel",
  wait: "waiting",
};

/** What a row's time is: "in the kernel", for a system call with that said as well. */
export function kindOf(id: string, part: ExplainPart | null): string {
  if (part === null) return "";
  return id.startsWith("syscall:") ? `system call, ${parts[part]}` : (parts[part] ?? part);
}

/** The id of the rest that no row explains; no row of the server has a space. */
export const restId = "the rest";

/** The largest part of the time first; the server sorts as well, but not the rows within rows. */
export function byShare(rows: ExplainRow[] | null | undefined): ExplainRow[] {
  return (rows ?? []).toSorted((a, b) => b.share.value - a.share.value || (a.id < b.id ? -1 : 1));
}

/** What the bars of a tree span: all of the time, and more where an interval does. */
export function scaleOf(trees: ExplainTree[]): { min: number; max: number } {
  const shares: ExplainAmount[] = trees.flatMap((t) => [...(t.rows ?? []).map((r) => r.share), t.unexplainedShare]);
  // More than twice the whole would leave nothing to see of the others.
  return { min: Math.max(-1, Math.min(0, ...shares.map((s) => s.low))), max: Math.min(2, Math.max(1, ...shares.map((s) => s.high))) };
}

/** What a part of the picture is: a kind of time, what the TEE does, or what nothing explains. */
export type Kind = ExplainPart | "tee" | "rest";

/** The kind of a row. */
export const kindOfRow = (row: Pick<ExplainRow, "tee" | "part">): Kind => (row.tee ? "tee" : row.part);

/** A part of the picture of a tree: time in seconds, and its share. */
export interface Segment {
  id: string;
  title: string;
  kind: Kind;
  time: number;
  share: number;
}

/** From this share on a row is a part of its own. */
const leastSegment = 0.015;

/** The parts of a tree's picture: what the TEE does first, then by share, small ones together; the rest
 * comes last. What is below zero, as a gain in a comparison, cannot be drawn as a part. */
export function segmentsOf(tree: ExplainTree): Segment[] {
  const segment = (r: ExplainRow): Segment => ({ id: r.id, title: r.title, kind: kindOfRow(r), time: r.time.value, share: r.share.value });
  const all = byShare(tree.rows).map(segment).filter((s) => s.time > 0 && s.share > 0);
  const [large, small] = [all.filter((s) => s.share >= leastSegment), all.filter((s) => s.share < leastSegment)];
  const sum = (of: (s: Segment) => number) => small.reduce((n, s) => n + of(s), 0);
  const out = [...large.filter((s) => s.kind === "tee"), ...large.filter((s) => s.kind !== "tee")];
  if (small.length === 1) out.push(small[0]!);
  else if (small.length > 1) out.push({ id: "small", title: `${small.length} others`, kind: small.every((s) => s.kind === "tee") ? "tee" : "kernel", time: sum((s) => s.time), share: sum((s) => s.share) });
  if (tree.unexplained.value > 0 && tree.unexplainedShare.value > 0) out.push({ id: restId, title: "not explained", kind: "rest", time: tree.unexplained.value, share: tree.unexplainedShare.value });
  return out;
}

/** A row in two trees. A side is null where its tree has no such row, and then no
 * difference is known: the time may be in that tree's rest. Nor is one known between
 * a measured time and a mere price. */
export interface Pair {
  id: string;
  title: string;
  part: ExplainPart | null;
  kind: Kind;
  before: Side | null;
  after: Side | null;
  difference: ExplainAmount | null;
  pairs: Pair[];
}

export type Side = Pick<ExplainRow, "time" | "share"> & Partial<Pick<ExplainRow, "rate" | "unit">>;

/** The rows of two trees side by side, what changed most first; the rest comes last. */
export function pairTrees(before: ExplainTree, after: ExplainTree): Pair[] {
  const rest = (t: ExplainTree): Side => ({ time: t.unexplained, share: t.unexplainedShare });
  return [
    ...pairRows(before.rows ?? [], after.rows ?? [], sampled(before) === sampled(after)),
    { id: restId, title: "Not explained", part: null, kind: "rest", before: rest(before), after: rest(after), difference: minus(after.unexplained, before.unexplained), pairs: [] },
  ];
}

/** The sampling clock saw the process, so that times are measured. */
function sampled(t: ExplainTree): boolean {
  return (t.unseen?.cpu.high ?? 0) > 0;
}

function pairRows(before: ExplainRow[], after: ExplainRow[], alike: boolean): Pair[] {
  const earlier = new Map(before.map((r) => [r.id, r]));
  const later = new Map(after.map((r) => [r.id, r]));
  const ids = new Set([...later.keys(), ...earlier.keys()]);
  const pairs = [...ids].map((id): Pair => {
    const [b, a] = [earlier.get(id), later.get(id)];
    const known = (a ?? b)!;
    return {
      id,
      title: known.title,
      part: known.part,
      kind: kindOfRow(known),
      before: b ?? null,
      after: a ?? null,
      difference: a && b && alike ? minus(a.time, b.time) : null,
      pairs: pairRows(b?.rows ?? [], a?.rows ?? [], alike),
    };
  });
  return pairs.sort((x, y) => weight(y) - weight(x) || (x.id < y.id ? -1 : 1));
}

/** How much a pair may have changed: what stands on one side alone counts in full. */
function weight(p: Pair): number {
  return Math.abs(p.difference?.value ?? p.after?.time.value ?? p.before?.time.value ?? 0);
}
