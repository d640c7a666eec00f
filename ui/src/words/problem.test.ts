import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { FindingsRecord } from "../api/types";
import { knownRules, problemsOf, severityOf, subjectOf } from "./problem";

const at = "2026-05-02T15:00:00Z";
const finding = (rule: string, o: Partial<FindingsRecord> = {}): FindingsRecord => ({ id: rule, rule, subject: "redis", title: `redis shows ${rule}.`, severity: "warning", confidence: "high", evidence: null, remedy: "", reference: "", state: "open", since: at, lastSeen: at, ...o });
const problems = (...findings: FindingsRecord[]) => problemsOf({ findings, rules: null, at });

test("every rule of the monitor has its place, and no other name does", () => {
  const docs = readFileSync(new URL("../../../docs/rules.md", import.meta.url), "utf8");
  const documented = [...docs.matchAll(/^`([a-z_]+)`\. /gm)].map((m) => m[1]!);
  expect(documented.length).toBeGreaterThan(20);
  expect(knownRules.toSorted()).toEqual([...new Set(documented)].toSorted());
});

test("the machine that a rule names is no part of the subject", () => {
  expect(["redis on node-2", "redis", "on node-2"].map((subject) => subjectOf({ subject, instance: "node-2" }))).toEqual(["redis", "redis", "on node-2"]);
  expect(subjectOf({ subject: "redis on node-2" })).toBe("redis on node-2");
  const [a, b] = problems(finding("pressure", { subject: "machine n", instance: "n" }), finding("clock_source", { subject: "machine n", instance: "n" }));
  expect([a?.effects, b?.effects]).toEqual([[], []]);
});

test("effects of one cause are one row, whose title counts them", () => {
  const [p, ...more] = problems(finding("cpu_throttling", { subject: "web" }), finding("context_switch_storm"), finding("pressure", { subject: "machine", title: "Tasks of the machine wait for a CPU 95 % of the time." }));
  expect(more).toEqual([]);
  expect([p!.lead.rule, p!.effects.map((f) => f.rule), p!.title]).toEqual(["pressure", ["cpu_throttling", "context_switch_storm"], "CPU saturated: 2 effects, on web and redis"]);
  expect(problems(finding("cpu_throttling"))[0]!.title).toBe("redis shows cpu_throttling");
  const [q] = problems(finding("cpu_throttling", { subject: "web" }), finding("cpu_starvation"));
  expect([q!.title, q!.effects.map((f) => f.rule)]).toEqual(["CPU saturated: 2 effects, on web and redis", ["cpu_throttling", "cpu_starvation"]]);
  const [r] = problems(...["a", "b", "c", "d"].map((subject) => finding("cpu_starvation", { id: subject, subject })));
  expect(r!.title).toBe("CPU saturated: 4 effects, on a, b and 2 more");
  const named = { subject: "machine", title: "CPU saturated: compile takes 97 % of a core; web waits.", takers: [{ name: "compile", value: 0.97, unit: "cores" }] };
  expect(problems(finding("pressure", named), finding("cpu_starvation", { subject: "web" }))[0]!.title).toBe("CPU saturated: compile takes 97 % of a core; web waits");
});

test("waiting for memory is another problem than waiting for a CPU", () => {
  const memory = finding("pressure", { id: "m", subject: "machine", evidence: [{ text: "", value: 1, unit: "", expr: "rate(node_pressure_memory_waiting_seconds_total[1m])" }] });
  expect(problems(memory, finding("cpu_throttling", { subject: "web" })).map((p) => p.lead.rule).toSorted()).toEqual(["cpu_throttling", "pressure"]);
});

test("the worst comes first, then what takes the larger share of its process's time", () => {
  const list = problems(finding("lock_contention", { subject: "a", share: [0.1, 0.2] }), finding("syscall_storm", { subject: "b", share: [0.5, 0.6] }), finding("target_down", { subject: "c", severity: "critical" }));
  expect(list.map((p) => p.lead.subject)).toEqual(["c", "b", "a"]);
  expect(severityOf(list[0]!)).toBe("critical");
});

test("the monitor is part of a problem only where it takes what a service lacks", () => {
  const costly = finding("over_budget", { subject: "teescope", severity: "critical" });
  const [p, ...more] = problems(finding("cpu_starvation", { subject: "web" }), costly);
  expect(more).toEqual([]);
  expect([p!.lead.rule, p!.title, p!.effects.map((f) => f.rule), severityOf(p!)]).toEqual(["cpu_starvation", "redis shows cpu_starvation", ["over_budget"], "warning"]);
  expect(problems(finding("lock_contention"), costly).map((q) => [q.lead.rule, q.effects.length])).toEqual([["lock_contention", 0]]);
});

test("what is about the monitor, a note, or over is no problem", () => {
  expect(problems(finding("over_budget"), finding("blind_counters", { severity: "info" }), finding("network_loss", { severity: "info" }), finding("lock_contention", { state: "closed" }))).toEqual([]);
});
