import { expect, test } from "vitest";
import type { Source } from "../api/types";
import { lossOf, slowedBy } from "./budget";
import { estimateWords, remarksOf } from "./remarks";
import { canNarrow, canSample, complaint, parsePercent, parsePIDs, stateWords } from "./source";

const source = (o: Partial<Source> = {}): Source => ({ name: "syscalls", doc: "", state: "available", coverage: 1, missed: 0, folded: 0, series: 1, sample: 1, metrics: ["m"], ...o });
const sampled = (o: Partial<Source> = {}) => source({ state: "degraded", coverage: 0.2412, estimated: true, short: true, error: 0.0313, reason: "it counts 24 % of the time, to stay within the budget", remedy: "raise --budget", ...o });

test("an estimate says its coverage and its error, with two digits at most", () => {
  expect(estimateWords(0.2412, 0.0313)).toBe("counts 24 % of events, scaled, ± 6.1 %");
  expect(estimateWords(0.5, undefined)).toBe("counts 50 % of events, scaled");
});

const counted = "source syscalls counted down to 0.97 % of its events for part of this time; counters are scaled up";

test("what is so now and what was so in the window is one remark for each source", () => {
  expect(remarksOf([source()], [], true)).toEqual([]);
  const [one, ...more] = remarksOf([sampled()], [counted], true);
  expect(more).toEqual([]);
  expect(one).toMatchObject({ kind: "estimate", short: "counts 24 % of events, scaled, ± 6.1 %" });
  expect(remarksOf([sampled({ error: 0.004, restError: 0.0313 })], [], true)[0]?.short).toBe(one?.short);
  expect(one?.text).toEqual(["Now syscalls: it counts 24 % of the time, to stay within the budget. Fix: raise --budget", `S${counted.slice(1)}.`]);
});

test("in a window that is over, only what was so then counts", () => {
  expect(remarksOf([sampled()], [], false)).toEqual([]);
  expect(remarksOf([sampled()], [counted], false)).toMatchObject([{ kind: "estimate", short: "syscalls partly estimated" }]);
  expect(remarksOf([], ["source block had no values for part of this time: budget", "something else"], false)).toMatchObject([
    { kind: "blind", short: "block unavailable for a time" },
    { kind: "other", text: ["Something else."] },
  ]);
});

test("several sources are told apart by name, blind ones say why", () => {
  const remarks = remarksOf([sampled(), source({ name: "block", state: "degraded", blind: true, reason: "budget" })], [], true);
  expect(remarks.map((r) => r.short)).toEqual(["syscalls counts 24 % of events, scaled, ± 6.1 %", "block unavailable here"]);
  expect(remarks[1]?.text[0]).toBe("Now block: the budget does not allow counting these events.");
});

test("what the budget takes is said in one sentence each, and what brings it back", () => {
  expect(lossOf([source()], 0.01)).toEqual({ sources: [], lost: "The budget limits nothing now: every enabled source counts all its events.", back: "" });
  const all = lossOf([sampled(), sampled({ name: "faults", coverage: 0.5, error: 0.1 }), source({ name: "switches", level: "count", wanted: "latency" }), source({ name: "block", state: "degraded", blind: true, reason: "budget", coverage: 0 })], 0.01);
  expect(all.sources).toEqual(["block", "switches", "syscalls", "faults"]);
  expect(all.lost).toBe(
    "To stay within 1 % of each core: block is off; its numbers are missing. switches runs at level count instead of latency. syscalls counts 24 % of its events and faults counts 50 % of its events; the numbers are scaled up, with a standard error of up to 10 %.",
  );
  expect(all.back).toContain("--budget");
});

test("what the user sampled or switched off is no loss", () => {
  expect(lossOf([source({ state: "degraded", sample: 0.25, coverage: 0.24, estimated: true }), source({ state: "off", coverage: 0 })], 0.01).sources).toEqual([]);
  expect(lossOf([source({ state: "degraded", sample: 0.25, coverage: 0.1, estimated: true, short: true })], 0.01).sources).toEqual(["syscalls"]);
});

test("settings are offered where they do something", () => {
  const cpu = source({ metrics: ["node_cpu_seconds_total"], sample: 0 });
  const calls = source({ metrics: ["tee_syscalls_total"], narrows: true });
  expect([canNarrow(cpu), canSample(cpu), canNarrow(calls), canSample(calls)]).toEqual([false, false, true, true]);
  expect(canSample(source({ ...calls, sample: 0 }))).toBe(false);
  expect(canSample(source({ needs: [{ capability: "cap_perfmon", for: "attaching" }] }))).toBe(true);
});

test("an opt-in source is not one that was switched off", () => {
  expect(stateWords(source({ state: "off", auto: true, waits: "an enclave runs" }))).toBe("off until needed");
  expect([stateWords(source({ state: "off", optIn: true })), stateWords(source({ state: "off", waits: "an enclave runs" })), stateWords(source({ blind: true })), stateWords(source())]).toEqual(["off by default", "switched off", "unavailable here", "available"]);
});

test("process ids and percentages are read, and what is neither is named", () => {
  expect(parsePIDs(" 12, 34 56 ")).toEqual([12, 34, 56]);
  expect(parsePIDs("")).toEqual([]);
  expect(() => parsePIDs("12, -3")).toThrow("-3 is not a process id");
  expect([parsePercent("25"), parsePercent(" 12.5 %")]).toEqual([0.25, 0.125]);
  expect(() => parsePercent("half")).toThrow("half is not a number");
});

test("a complaint loses what stands beside it", () => {
  expect(complaint("set source syscalls: process: error parsing regexp: missing closing ): `a(`", "syscalls")).toBe("error parsing regexp: missing closing ): `a(`");
  expect(complaint("The monitor does not answer.", "syscalls")).toBe("The monitor does not answer.");
});

test("own work that does not fit into the budget is said", () => {
  expect(slowedBy(4)).toBe("Scans of all threads and the rule for unusual levels run up to 4 times less often than configured, because teescope's own work exceeds the budget.");
});
