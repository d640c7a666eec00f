import { expect, test } from "vitest";
import type { ResultExperiment, ResultRun, ResultSummary } from "../api/types";
import { home } from "../state/place";
import { comparison } from "../words/sample";
import { armsOf, choicesOf, collapsed, metricLabel, missingOf, narrow, tellingOf, windowOfRuns } from "./document";

const run = (env: string, kase: string, value: number | null, o: Partial<ResultRun> = {}): ResultRun =>
  ({
    run_id: `${kase}-${env}-${o.pair ?? 0}`,
    env_id: env,
    case: kase,
    pair: 0,
    position: 0,
    started_at: "2026-05-02T15:00:00Z",
    duration_seconds: 2,
    status: "ok",
    metrics: [{ name: "work_seconds", value, source: "measured", ...(value === null ? { missing_reason: "the tool printed none" } : {}) }],
    counters: [],
    interference: {},
    ...o,
  }) as ResultRun;

const doc = (o: Partial<ResultExperiment> = {}): ResultExperiment =>
  ({
    name: "x",
    started_at: "2026-05-02T15:00:00Z",
    ended_at: "2026-05-02T15:00:10Z",
    design: { primary_metric: "work_seconds" },
    workload: { name: "w", metrics: [{ name: "work_seconds", help: "", unit: "seconds", better: "lower" }] },
    cases: [{ case_id: "default", params: {}, identity: "" }],
    environments: ["native", "vm", "sgx"].map((env_id) => ({ env_id, missing: {} })),
    runs: [],
    comparisons: [],
    ...o,
  }) as ResultExperiment;

test("what is missing keeps its reason and counts its runs", () => {
  const e = doc({ runs: [run("vm", "default", null), run("vm", "default", null), run("native", "default", 1, { interference: { missing: { cpu_hertz: "blind" } } as never })] });
  e.environments![0]!.missing = { cloud: "no DMI strings" };
  expect(missingOf(e)).toEqual([
    { what: "cloud", where: "native", why: "no DMI strings" },
    { what: "work_seconds", where: "vm, 2 runs", why: "the tool printed none" },
    { what: "cpu_hertz", where: "native, 1 run", why: "blind" },
  ]);
});

test("the window has room at both ends for a few readings", () => {
  const e = doc({ runs: [run("native", "default", 1, { started_at: "2026-05-02T15:00:09Z", duration_seconds: 3 })] });
  const start = Date.parse("2026-05-02T15:00:00Z") / 1000;
  expect(windowOfRuns(e, start + 9999)).toEqual({ from: start - 24, to: start + 36 });
  expect([windowOfRuns(e, start + 20).to, windowOfRuns(e, start).to]).toEqual([start + 20, start + 12]);
});

test("equal refusals are one, other verdicts are not", () => {
  const refused = (kase: string, reason: string) => comparison({ case: kase, verdict: "invalid", reasons: [reason] });
  const groups = collapsed([comparison({ case: "a" }), refused("b", "too noisy"), comparison({ case: "c" }), refused("d", "too noisy"), refused("e", "another CPU")]);
  expect(groups.map((g) => g.map((c) => c.case))).toEqual([["a"], ["b", "d"], ["c"], ["e"]]);
});

test("two metrics of one name keep their units", () => {
  const metrics = ["total_bytes_per_second", "total_seconds", "wall_seconds"].map((name) => ({ name, help: "", unit: name.slice(name.indexOf("_") + 1), better: "lower" }));
  const e = doc({ workload: { name: "w", metrics } as never });
  expect(metrics.map((m) => metricLabel(e, m.name))).toEqual(["total bytes per second", "total seconds", "wall"]);
});

const summary = (o: Partial<ResultSummary>): ResultSummary => ({ id: "1", name: "startup", workload: "startup", started: "", grade: "A", pairs: 10, runs: 20, environments: ["native", "sgx"], cases: ["default"], comparisons: [comparison()], origin: { word: "unattested", line: "unattested" }, ...o });

test("a filter looks at every word and every verdict", () => {
  const all = [summary({}), summary({ id: "2", workload: "fio", environments: ["native", "vm"], grade: "D", comparisons: [comparison({ grade: "D" }), comparison({ verdict: "invalid" })] }), summary({ id: "3", environments: ["native"], grade: "" as never, comparisons: [] })];
  const ids = (f: Partial<typeof home.filter>) => narrow(all, { ...home.filter, ...f }).map((r) => r.id).join();
  expect([ids({}), ids({ text: "SGX costs" }), ids({ text: "fio vm" }), ids({ text: "fio redis" })]).toEqual(["1,2,3", "1,2", "2", ""]);
  expect([ids({ verdict: "invalid" }), ids({ verdict: "platform" }), ids({ verdict: "cost" }), ids({ verdict: "none" }), ids({ grade: "D" }), ids({ environment: "vm" })]).toEqual(["2", "2", "1", "3", "2", "2"]);
  expect(choicesOf(all)).toEqual({ workload: ["fio", "startup"], environment: ["native", "sgx", "vm"], verdict: ["cost", "invalid", "platform", "none"], grade: ["A", "D"] });
});

test("a line speaks of the largest cost that stands", () => {
  const refused = comparison({ verdict: "invalid", cost_ratio: 99 });
  expect(tellingOf([refused, comparison({ cost_ratio: 1.1 }), comparison({ cost_ratio: 2 })])?.cost_ratio).toBe(2);
  expect(tellingOf([refused])).toBe(refused);
  expect(tellingOf([])).toBeNull();
});

test("the arms that stand side by side are the last pair in which both went well", () => {
  const environments = [
    { env_id: "native", role: "baseline" },
    { env_id: "sgx", role: "treatment" },
  ] as ResultExperiment["environments"];
  const at = (env: string, pair: number, minute: string, o: Partial<ResultRun> = {}) => run(env, "default", 1, { pair, started_at: `2026-05-02T15:${minute}:00Z`, ...o });
  const runs = [at("native", 0, "00"), at("sgx", 0, "01"), at("sgx", 1, "02"), at("native", 1, "03"), at("native", 2, "04"), at("sgx", 2, "05", { status: "failed" })];
  const start = Date.parse("2026-05-02T15:00:00Z") / 1000;
  expect(armsOf(doc({ environments, runs }))).toEqual({ before: { from: start + 180, to: start + 182 }, fixed: { from: start + 120, to: start + 122 } });
  expect(armsOf(doc({ environments, runs: runs.slice(0, 1) }))).toBe(null);
});
