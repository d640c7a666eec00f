// The rows of cost trees, alone and in pairs.
import type { ExplainAmount, ExplainPart, ExplainRow, ExplainTree } from "../api/types";
import { minus } from "./amount";

/** What each kind of time is called. */
export const parts: Record<ExplainPart, string> = {
  user: "user code",
  kernel: "in the kernel",
  wait: "waiting",
};

/** The kind of a row's time: "in the kernel", also stated for a system call. */
export function kindOf(id: string, part: ExplainPart | null): string {
  if (part === null) return "";
  return id.startsWith("syscall:") ? `system call, ${parts[part]}` : (parts[part] ?? part);
}

/** The id of the rest that no row explains; no row of the server has a space. */
export const restId = "the rest";

/** The largest part of the time first; the server sorts too, but not the rows within rows. */
export function byShare(rows: ExplainRow[] | null | undefined): ExplainRow[] {
  return (rows ?? []).toSorted((a, b) => b.share.value - a.share.value || (a.id < b.id ? -1 : 1));
}

/** The span of a tree's bars: all of the time, and more if an interval needs it. */
export function scaleOf(trees: ExplainTree[]): { min: number; max: number } {
  const shares: ExplainAmount[] = trees.flatMap((t) => [...(t.rows ?? []).map((r) => r.share), t.unexplainedShare]);
  // More than twice the whole would make the others too small to see.
  return { min: Math.max(-1, Math.min(0, ...shares.map((s) => s.low))), max: Math.min(2, Math.max(1, ...shares.map((s) => s.high))) };
}

/** What a part of the picture is: a kind of time, an effect of other processes or the TEE, or
 * unexplained time. */
export type Kind = ExplainPart | "queue" | "tee" | "rest";

/** Their names. */
export const kinds: Record<Kind, string> = { ...parts, wait: "waiting for locks and disks", queue: "waiting for a CPU", tee: "the TEE", rest: "not explained" };

/** The id of the row of waiting for a CPU. */
export const queueId = "queue";

/** The kind of a row. */
export const kindOfRow = (row: Pick<ExplainRow, "id" | "tee" | "part">): Kind => (row.id === queueId ? "queue" : row.tee ? "tee" : row.part);

/** The row of waiting for a CPU, if there is one. */
export function queueOf(tree: ExplainTree): ExplainRow | undefined {
  return tree.rows?.find((r) => r.id === queueId);
}

/** The share of its time in which a process waits for a CPU. */
export function queueShare(tree: ExplainTree): number {
  return queueOf(tree)?.share.value ?? 0;
}

/** A part of an icicle: its start and width, as shares of its row. */
export interface Cell {
  id: string;
  title: string;
  kind: Kind;
  left: number;
  width: number;
  time: number;
}

/** The contents of a row, level by level, starting with the row itself. Parts that add up to more
 * than their whole are drawn as shares of their sum. */
export function icicleOf(row: ExplainRow): Cell[][] {
  const cell = (r: ExplainRow, left: number, width: number): Cell => ({ id: r.id, title: r.title, kind: kindOfRow(r), left, width, time: r.time.value });
  const levels: Cell[][] = [];
  let level: { row: ExplainRow; left: number; width: number }[] = [{ row, left: 0, width: 1 }];
  while (level.length > 0) {
    levels.push(level.map((p) => cell(p.row, p.left, p.width)));
    level = level.flatMap((p) => {
      const inner = byShare(p.row.rows).filter((r) => r.time.value > 0);
      const whole = Math.max(p.row.time.value, inner.reduce((n, r) => n + r.time.value, 0));
      let left = p.left;
      return inner.map((r) => {
        const width = (p.width * r.time.value) / whole;
        left += width;
        return { row: r, left: left - width, width };
      });
    });
  }
  return levels;
}

/** A part of the picture of a tree: time in seconds, and its share. */
export interface Segment {
  id: string;
  title: string;
  kind: Kind;
  time: number;
  share: number;
}

/** The smallest share of a separate part; the TEE's activity always is one. */
const leastSegment = 0.015;

/** The parts of a tree's picture: the TEE's activity first, then by share, small ones together; the
 * rest comes last. Values below zero, such as a gain in a comparison, cannot be drawn as a part. */
export function segmentsOf(tree: ExplainTree): Segment[] {
  const segment = (r: ExplainRow): Segment => ({ id: r.id, title: r.title, kind: kindOfRow(r), time: r.time.value, share: r.share.value });
  const all = byShare(tree.rows).map(segment).filter((s) => s.time > 0 && s.share > 0);
  const isLarge = (s: Segment) => s.kind === "tee" || s.share >= leastSegment;
  const [large, small] = [all.filter(isLarge), all.filter((s) => !isLarge(s))];
  const sum = (of: (s: Segment) => number) => small.reduce((n, s) => n + of(s), 0);
  const out = [...large.filter((s) => s.kind === "tee"), ...large.filter((s) => s.kind !== "tee")];
  if (small.length === 1) out.push(small[0]!);
  else if (small.length > 1) out.push({ id: "small", title: `${small.length} others`, kind: "kernel", time: sum((s) => s.time), share: sum((s) => s.share) });
  if (tree.unexplained.value > 0 && tree.unexplainedShare.value > 0) out.push({ id: restId, title: "not explained", kind: "rest", time: tree.unexplained.value, share: tree.unexplainedShare.value });
  return out;
}

/** A row in two trees. A side is null if its tree has no such row; then the difference is unknown,
 * because the time may be in that tree's rest. It is also unknown between a measured time and a
 * mere price. */
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

/** The rows of two trees side by side, the largest change first; the rest comes last. */
export function pairTrees(before: ExplainTree, after: ExplainTree): Pair[] {
  const rest = (t: ExplainTree): Side => ({ time: t.unexplained, share: t.unexplainedShare });
  return [
    ...pairRows(before.rows ?? [], after.rows ?? [], sampled(before) === sampled(after)),
    { id: restId, title: "Not explained", part: null, kind: "rest", before: rest(before), after: rest(after), difference: minus(after.unexplained, before.unexplained), pairs: [] },
  ];
}

/** The sampling clock sampled the process, so times are measured. */
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

/** How much a pair may have changed: a row on one side only counts in full. */
function weight(p: Pair): number {
  return Math.abs(p.difference?.value ?? p.after?.time.value ?? p.before?.time.value ?? 0);
}
