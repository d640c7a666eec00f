import { expect, test } from "vitest";
import type { FindingsRecord } from "../api/types";
import { isOwn, problemsOf, subjectOf } from "./problem";

const at = "2026-05-02T15:00:00Z";
const finding = (id: string, o: Partial<FindingsRecord> = {}): FindingsRecord => ({ age: 0, id, rule: "r", subject: "redis", title: "redis is slow.", severity: "warning", confidence: "high", evidence: null, remedy: "", reference: "", state: "open", since: at, lastSeen: at, ...o });

test("the machine that a rule names is no part of the subject", () => {
  expect(["redis on node-2", "redis", "on node-2"].map((subject) => subjectOf({ subject, instance: "node-2" }))).toEqual(["redis", "redis", "on node-2"]);
  expect(subjectOf({ subject: "redis on node-2" })).toBe("redis on node-2");
  expect(subjectOf({ subject: "machine n", instance: "n" })).toBe("machine");
});

test("problems have the server's order, words and findings", () => {
  const problem = { title: "CPU saturated: 1 effect, on redis", severity: "critical" as const, lead: "b", since: at, effects: ["a", "unknown"] };
  const single = { title: "web waits", severity: "warning" as const, lead: "c", since: at, effects: null };
  const answer = { findings: [finding("a"), finding("b"), finding("c")], rules: null, at, problems: [problem, single], summary: { level: "critical" as const, headline: "", checks: "" } };
  expect(problemsOf(answer).map((p) => [p.title, p.severity, p.lead.id, p.effects.map((f) => f.id)])).toEqual([
    [problem.title, "critical", "b", ["a"]],
    ["web waits", "warning", "c", []],
  ]);
  expect(problemsOf({ ...answer, findings: [] })).toEqual([]);
  expect(problemsOf(null)).toEqual([]);
});

test("a finding's role says whether it is about the monitor", () => {
  expect([isOwn(finding("a", { role: "monitor" })), isOwn(finding("a", { role: "cause" })), isOwn(finding("a"))]).toEqual([true, false, false]);
});
