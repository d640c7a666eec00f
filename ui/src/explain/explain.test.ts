import { expect, test } from "vitest";
import type { ExplainAmount, ExplainRow, ExplainTree, Explanation } from "../api/types";
import { formatAmount, formatRange, formatRate, formatSigned, minus, unclear } from "./amount";
import { byShare, icicleOf, pairTrees, queueId, restId, scaleOf, segmentsOf } from "./rows";
import { starved as isStarved, verdictOnBoth, waitingOfBoth } from "./words";

const amount = (value: number, half = value * 0.1): ExplainAmount => ({ value, low: value - half, high: value + half });
const row = (id: string, share: number, o: Partial<ExplainRow> = {}): ExplainRow => ({ id, title: id, part: "kernel", time: amount(share), share: amount(share), evidence: null, ...o });
const tree = (rows: ExplainRow[], o: Partial<ExplainTree> = {}): ExplainTree => ({
  subject: "redis",
  from: "2026-11-21T12:00:00Z",
  to: "2026-11-21T12:05:00Z",
  per: "second",
  active: amount(1, 0.02),
  rows,
  unexplained: amount(0.1, 0.05),
  unexplainedShare: amount(0.1, 0.05),
  checks: null,
  blind: null,
  ...o,
});
const explanation = (t: ExplainTree, starved = false): Explanation => ({ tree: t, summary: { level: "good", headline: "", whole: "", starved }, causes: null, findings: null });

test("an estimate reads with its interval", () => {
  expect(formatAmount({ value: 0.412, low: 0.38, high: 0.444 }, "ratio")).toBe("41.2 % (38 % to 44.4 %)");
  expect(formatRange({ value: 1, low: 1, high: 1 }, "seconds")).toBe("1 s");
  expect(formatRange({ value: 0, low: 6.7e-16, high: 0.02 }, "ratio")).toBe("0 % to 2 %");
  expect(formatRate(amount(1234), "second")).toBe("1.23 k/s");
  expect(formatRate(amount(3), "request")).toBe("3 per request");
  expect([formatSigned(0.01, "seconds"), formatSigned(-0.01, "seconds"), formatSigned(0, "seconds")]).toEqual(["+10 ms", "−10 ms", "0 s"]);
});

test("the interval of a difference comes from the ends that face each other", () => {
  const d = minus({ value: 10, low: 7, high: 12 }, { value: 4, low: 3, high: 8 });
  expect(d.value).toBe(6);
  expect(d.low).toBeCloseTo(6 - 5);
  expect(d.high).toBeCloseTo(6 + Math.hypot(2, 1));
  expect(unclear(d)).toBe(false);
  expect(unclear(minus(amount(1, 0.5), amount(1.2, 0.5)))).toBe(true);
});

test("rows are ordered by share, and by name where that is equal", () => {
  expect(byShare([row("b", 0.1), row("c", 0.5), row("a", 0.1)]).map((r) => r.id)).toEqual(["c", "a", "b"]);
  expect(byShare(null)).toEqual([]);
});

test("the scale holds what is too much and what is too little", () => {
  expect(scaleOf([tree([row("a", 0.4)])])).toEqual({ min: 0, max: 1 });
  const over = scaleOf([tree([row("a", 1.2)], { unexplainedShare: amount(-0.2, 0.1) })]);
  expect(over.min).toBeCloseTo(-0.3);
  expect(over.max).toBeCloseTo(1.32);
  expect(scaleOf([tree([row("a", 50)])]).max).toBe(2);
});

test("two trees: what changed most comes first, the rest last, and a missing side gives no difference", () => {
  const before = tree([row("own", 0.5), row("gone", 0.05, { rows: [row("inner", 0.01)] }), row("same", 0.2)]);
  const after = tree([row("own", 0.4), row("same", 0.2), row("new", 0.3)], { unexplained: amount(0.9, 0.05) });
  const pairs = pairTrees(before, after);
  expect(pairs.map((p) => p.id)).toEqual(["new", "own", "gone", "same", restId]);
  expect(pairs[0]).toMatchObject({ before: null, difference: null });
  expect(pairs[1]!.difference!.value).toBeCloseTo(-0.1);
  expect(pairs[2]!.pairs.map((p) => p.id)).toEqual(["inner"]);
  expect(pairs[4]!.difference!.value).toBeCloseTo(0.8);
});

test("a measured time and a mere price have no difference", () => {
  const zero = amount(0, 0);
  const [measured, priced] = [tree([row("syscall:read", 0.2)], { unseen: { cpu: { value: 0, low: 0, high: 0.01 }, wait: zero } }), tree([row("syscall:read", 0.1)])];
  expect(pairTrees(priced, measured)[0]).toMatchObject({ id: "syscall:read", difference: null });
  expect(pairTrees(measured, measured)[0]!.difference!.value).toBe(0);
});

test("two windows differ, or may not", () => {
  expect(verdictOnBoth(explanation(tree([])), explanation(tree([], { active: amount(1.5, 0.02) })))).toBe("redis spends 500 ms (472 ms to 528 ms) more per second.");
  expect(verdictOnBoth(explanation(tree([])), explanation(tree([], { active: amount(1.01, 0.02) })))).toContain("may be zero");
  expect(verdictOnBoth(explanation(tree([], { subject: "other" })), explanation(tree([], { active: amount(0.5, 0.02) })))).toContain("redis, compared with other, spends 500 ms");
});

test("the picture: the TEE first, small rows together, the rest last, and no part below zero", () => {
  const t = tree([row("own", 0.5), row("transitions", 0.1, { tee: true }), row("enclave_faults", 0.2, { tee: true }), row("a", 0.005), row("b", 0.01), row("gain", -0.1)]);
  expect(segmentsOf(t).map((s) => [s.id, s.kind])).toEqual([
    ["enclave_faults", "tee"],
    ["transitions", "tee"],
    ["own", "kernel"],
    ["small", "kernel"],
    [restId, "rest"],
  ]);
  expect(segmentsOf(t)[3]).toMatchObject({ title: "2 others", time: 0.015, share: 0.015 });
  expect(segmentsOf(tree([row("own", 1)], { unexplained: amount(-0.1), unexplainedShare: amount(-0.1) })).map((s) => s.id)).toEqual(["own"]);
  expect(segmentsOf(tree([row("own", 0.9), row("a", 0.01)])).map((s) => s.id)).toEqual(["own", "a", restId]);
  expect(segmentsOf(tree([row("own", 0.9), row("a", 0.01), row("b", 0.01), row("faults", 0.001, { tee: true })])).map((s) => s.id)).toEqual(["faults", "own", "small", restId]);
});

test("a process that is starved of CPU is not said to take less", () => {
  const queue = (share: number) => row(queueId, share, { part: "wait" });
  const [calm, starved] = [tree([row("own", 0.9)]), tree([row("own", 0.3), queue(0.6)], { active: amount(0.9, 0.01) })];
  const said = verdictOnBoth(explanation(calm), explanation(starved, true));
  expect(said).toMatch(/^redis waits for a CPU: 60 % of its time; before: not measured\. Without that, it spends 700 ms .* less per second\.$/);
  expect(verdictOnBoth(explanation({ ...calm, subject: "other" }), explanation(starved, true))).toMatch(/^redis waits for a CPU: 60 % of its time; other: not measured\. Without that, redis spends /);
  expect(segmentsOf(starved).find((s) => s.id === queueId)?.kind).toBe("queue");
});

test("a comparison always says how long both sides wait for a CPU", () => {
  const zero = amount(0, 0);
  const none = tree([row("own", 0.9)]);
  const little = tree([row("own", 0.9)], { unseen: { cpu: zero, wait: { value: 0, low: 0, high: 0.004 } } });
  const some = tree([row("own", 0.8), row(queueId, 0.1, { part: "wait" })]);
  expect(waitingOfBoth(none, some, ["Before", "After"])).toBe("Waiting for a CPU: before not measured, after 10 % of its time.");
  expect(waitingOfBoth(little, none, ["web", "db"])).toBe("Waiting for a CPU: web at most 0.4 % of its time, db not measured.");
  expect([isStarved(explanation(none), explanation(some)), isStarved(explanation(none), explanation(some, true)), isStarved(explanation(some, true), explanation(none))]).toEqual([false, true, true]);
});

test("an icicle has a level for each depth, and parts stay within their whole", () => {
  const whole = row("a", 0.4, { rows: [row("b", 0.1), row("c", 0.2, { rows: [row("d", 0.3)] }), row("none", 0)] });
  expect(icicleOf(whole).map((level) => level.map((c) => [c.id, Number(c.left.toFixed(3)), Number(c.width.toFixed(3))]))).toEqual([
    [["a", 0, 1]],
    [["c", 0, 0.5], ["b", 0.5, 0.25]],
    [["d", 0, 0.5]],
  ]);
});
