import { expect, test } from "vitest";
import type { FindingsRecord } from "../api/types";
import { around, spanOf, tracksOf } from "./spans";

const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const finding = (id: string, since: number, until: number | null, o: Partial<FindingsRecord> = {}): FindingsRecord => ({
  age: 0,
  id,
  rule: "syscall_storm",
  subject: "redis",
  title: "",
  severity: "warning",
  confidence: "high",
  evidence: null,
  remedy: "",
  reference: "",
  state: until === null ? "open" : "closed",
  since: at(since),
  lastSeen: at(until ?? since),
  ...(until === null ? {} : { until: at(until) }),
  ...o,
});

test("an open finding lasts until now", () => {
  expect(spanOf(finding("a", 100, null), 500)).toEqual({ from: 100, to: 500 });
  expect(spanOf(finding("a", 100, 200), 500)).toEqual({ from: 100, to: 200 });
});

test("the window around a finding shows what was before, and no future", () => {
  expect(around(finding("a", 10_000, 11_000), 20_000)).toEqual({ from: 9500, to: 11_500 });
  expect(around(finding("a", 10_000, null), 10_010)).toEqual({ from: 9880, to: 10_010 });
});

test("each unit of a subject has a line of its own", () => {
  const list = [finding("a", 1000, 1100), finding("b", 1200, 1300, { unit: "a.service" }), finding("c", 1400, 1500, { unit: "b.service" })];
  const { tracks } = tracksOf(list, { from: 900, to: 2000 }, 1800);
  expect(tracks.map((t) => [t.subject, t.bars.length])).toEqual([
    ["redis of b.service", 1],
    ["redis of a.service", 1],
    ["redis", 1],
  ]);
});

test("findings of one rule and subject share a line, and those outside are counted", () => {
  const list = [finding("a", 1000, 1100), finding("b", 1500, null), finding("c", 1200, 1300, { subject: "nginx" }), finding("d", 10, 20)];
  const { tracks, outside } = tracksOf(list, { from: 1050, to: 2050 }, 1800);
  expect(tracks.map((t) => [t.subject, t.bars.map((b) => b.finding.id)])).toEqual([
    ["redis", ["b", "a"]],
    ["nginx", ["c"]],
  ]);
  expect(tracks[0]!.bars[1]).toMatchObject({ left: 0, cut: true });
  expect(tracks[0]!.bars[1]!.width).toBeCloseTo(0.05);
  expect(tracks[0]!.bars[0]!.width).toBeCloseTo(0.3);
  expect(outside.map((f) => f.id)).toEqual(["d"]);
});
