import { expect, test } from "vitest";
import type { Annotation, FindingsRecord } from "../api/types";
import { covered, evidentOn, marksOf, type Mark } from "./marks";

const mark = (time: number, timeEnd: number | undefined, tags: string[] | null): Annotation => ({ id: "", time, ...(timeEnd === undefined ? {} : { timeEnd }), title: "redis: syscall_storm", text: "t", tags });

test("marks are cut to the window, and one without an end goes on", () => {
  const w = { from: 100, to: 200 };
  const marks = marksOf([mark(50_000, 120_000, ["warning"]), mark(150_000, undefined, ["x", "critical"]), mark(10_000, 90_000, null), mark(250_000, undefined, null)], w);
  expect(marks).toEqual([
    { from: 100, to: 120, id: "", title: "t", level: "warning" },
    { from: 150, to: 200, id: "", title: "t", level: "critical" },
  ]);
  expect(marksOf(null, w)).toEqual([]);
});

test("where marks overlap, the severest one is drawn, once", () => {
  const m = (from: number, to: number, level: Mark["level"]): Mark => ({ from, to, level, id: "", title: "t" });
  expect(covered([m(0, 10, "info"), m(2, 4, "critical"), m(3, 6, "warning"), m(5, 8, "info"), m(20, 30, "warning"), m(30, 40, "warning"), m(25, 35, "warning")])).toEqual([
    { from: 0, to: 2, level: "info" },
    { from: 2, to: 4, level: "critical" },
    { from: 4, to: 6, level: "warning" },
    { from: 6, to: 10, level: "info" },
    { from: 20, to: 40, level: "warning" },
  ]);
  expect(covered([])).toEqual([]);
});

test("a chart marks only findings whose evidence it shows", () => {
  const finding = (id: string, subject: string, expr: string) => ({ id, subject, evidence: [{ text: "", value: 1, unit: "", expr }] }) as FindingsRecord;
  const all = [finding("calls", "redis", 'sum(rate(tee_syscalls_total{process="redis"}[1m]))'), finding("other", "nginx", "tee_syscalls_total"), finding("cpu", "machine", "node_pressure_cpu_waiting_seconds_total")];
  const on = (subjects: string[], metrics: string[], expr = "") => [...evidentOn(all, { subjects, metrics, expr })];
  expect(on(["redis"], ["tee_syscalls_total"])).toEqual(["calls"]);
  expect(on(["redis"], ["tee_page_faults_total"])).toEqual([]);
  expect(on([], ["node_pressure_cpu_waiting_seconds_total"])).toEqual(["cpu"]);
  expect(on([], [], "tee_syscalls_total")).toEqual(["other"]);
});
