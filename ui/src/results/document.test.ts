import { expect, test } from "vitest";
import type { ResultCounter, ResultExperiment, ResultRun, ResultSummary } from "../api/types";
import { home } from "../state/place";
import { comparison } from "../words/sample";
import { armsOf, choicesOf, countersOf, curvesOf, efficiencyOf, hostWideOf, median, metricLabel, missingOf, narrow, quantity, readings, sweepsOf, tellingOf, whyMissing, windowOfRuns } from "./document";

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

test("readings keep what was not counted apart, and say why a value is missing", () => {
  const e = doc({ runs: [run("native", "default", 3, { started_at: "2026-05-02T15:00:04Z" }), run("native", "default", 1), run("native", "default", 9, { status: "excluded" }), run("vm", "default", null)] });
  const { good, out } = readings(e, "native", "default", "work_seconds");
  expect([good.map((r) => r.value), out.map((r) => r.value)]).toEqual([[1, 3], [9]]);
  expect(whyMissing(e, "vm", "default", "work_seconds")).toBe("the tool printed none");
  expect(whyMissing(e, "sgx", "default", "work_seconds")).toBe("nothing ran in sgx");
  expect([median([]), median([4, 1, 3]), median([1, 2])]).toEqual([null, 3, 1.5]);
});

test("a sweep is one per combination of the others, in the order of its numbers", () => {
  const cases = ["8", "1", "16"].flatMap((threads) => ["r", "w"].map((mode) => ({ case_id: `${mode}${threads}`, params: { threads, mode, size: "1GiB" }, identity: "" })));
  const found = sweepsOf(doc({ cases }));
  expect(found.map((s) => [s.param, s.other, s.points.map((p) => p.written).join()])).toEqual([["threads", "mode=r", "1,8,16"], ["threads", "mode=w", "1,8,16"]]);
  expect(sweepsOf(doc())).toEqual([]);
  expect(["8", "0.5", "4k", "16MiB", "2 GB", "fast", ""].map(quantity)).toEqual([8, 0.5, 4096, 16 * 2 ** 20, null, null, null]);
});

test("efficiency is against the arm's own first point", () => {
  const cases = ["1", "4"].map((threads) => ({ case_id: threads, params: { threads }, identity: "" }));
  const e = doc({ cases, runs: [run("native", "1", 8), run("native", "4", 4)] });
  const [native, vm] = curvesOf(e, sweepsOf(e)[0]!, "work_seconds");
  expect(efficiencyOf(native!, "lower").points).toEqual([{ at: 1, value: 1 }, { at: 4, value: 0.5 }]);
  expect(efficiencyOf(native!, "higher").points[1]!.value).toBe(0.125);
  expect(efficiencyOf(vm!, "lower").points).toEqual([]);
});

test("a counter is the sum over processes and the median over runs, and trust is the least", () => {
  const counter = (process: string, value: number | null, o: Partial<ResultCounter> = {}): ResultCounter => ({ name: "tee_syscalls_total", labels: { process, syscall: "read" }, value, per_operation: null, scope: "process", trust: "full", ...o });
  const runs = [
    run("native", "default", 1, { pair: 0, counters: [counter("a", 1), counter("b", 2)] }),
    run("native", "default", 1, { pair: 1, counters: [counter("a", 5)] }),
    run("vm", "default", 1, { pair: 0, counters: [counter("a", 40, { trust: "partial" })] }),
    run("sgx", "default", 1, { pair: 0, counters: [counter("a", 0, { trust: "none", note: "a production enclave is opaque" })] }),
  ];
  expect(countersOf(doc({ runs }), "default")).toEqual([
    {
      name: "syscalls, read",
      metric: "tee_syscalls_total",
      kind: "read",
      scope: "process",
      per: "run",
      arms: [
        { value: 4, trust: "full", reason: "" },
        { value: 40, trust: "partial", reason: "" },
        { value: null, trust: "none", reason: "a production enclave is opaque" },
      ],
    },
  ]);
  const total = { ...counter("a", 9), labels: {} };
  const cpu = [total, { ...counter("a", 6), labels: { process: "a" } }];
  expect(countersOf(doc({ runs: [run("native", "default", 1, { counters: cpu })] }), "default")[0]!.arms[0]!.value).toBe(9);
  const once = { ...counter("a", 8), labels: { process: "a", syscall: "mmap" } };
  const three = [0, 1, 2].map((pair) => run("native", "default", 1, { run_id: `r${pair}`, counters: pair === 0 ? [total, once] : [total] }));
  const named = countersOf(doc({ runs: three }), "default").find((r) => r.name === "syscalls, mmap")!;
  expect(named.arms.map((a) => a.value)).toEqual([0, null, null]);
});

test("counters of a server are for a hundred of its requests", () => {
  const counter: ResultCounter = { name: "tee_page_faults_total", labels: {}, value: 30, per_operation: 0.03, scope: "process", trust: "full" };
  const workload = (unit: string) => ({ ...doc({}).workload, operations_metric: "n", metrics: [{ name: "n", help: "", unit, better: "none" }] });
  const runs = [run("native", "default", 1, { counters: [counter] })];
  const seen = (unit: string) => countersOf(doc({ runs, workload: workload(unit) }), "default").map((c) => [c.per, c.arms[0]!.value]);
  expect(seen("requests")).toEqual([["100 requests", 3]]);
  expect(seen("operations")).toEqual([["operation", 0.03]]);
});

test("the whole machine and its helpers stand beside the workload", () => {
  const counter = (name: string, value: number | null, labels: { [key: string]: string } = {}): ResultCounter => ({ name, labels, value, per_operation: value, scope: "process", trust: "full" });
  const faults = "tee_page_faults_total";
  const none: ResultCounter = { ...counter("tee_llc_misses_total", null), scope: "machine", trust: "none", note: "no performance counters" };
  const ofMachine: ResultCounter = { ...counter("tee_llc_misses_total", 7), scope: "machine", trust: "partial" };
  const runs = [
    run("native", "default", 1, { counters: [counter(faults, 0), ofMachine], host_counters: [counter(faults, 6), counter(faults, 0, { helper: "kswapd*" }), none] }),
    run("vm", "default", 1, {
      counters: [counter(faults, 1, { process: "a", space: "user" }), counter(faults, 2, { process: "b", space: "user" }), counter(faults, 5, { process: "b", space: "kernel" }), counter(faults, 8)],
      host_counters: [counter(faults, 90), counter(faults, 4, { helper: "vhost*" }), none],
    }),
  ];
  const rows = hostWideOf(doc({ runs, environments: ["native", "vm"].map((env_id) => ({ env_id })) as never }), "default");
  expect(rows.map((r) => [r.name, r.of, ...r.arms.map((a) => a.value)])).toEqual([
    ["page faults, in user space", "the workload", 0, 3],
    ["page faults", "the workload", 0, 8],
    ["page faults", "the whole machine", 6, 90],
    ["page faults", "vhost*", 0, 4],
    ["last-level cache misses", "the whole machine", null, null],
  ]);
  expect(rows.at(-1)!.arms[0]!.reason).toBe("no performance counters");
  expect(hostWideOf(doc({ runs: [run("native", "default", 1)] }), "default")).toEqual([]);
});

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

test("two metrics of one name keep their units", () => {
  const metrics = ["total_bytes_per_second", "total_seconds", "wall_seconds"].map((name) => ({ name, help: "", unit: name.slice(name.indexOf("_") + 1), better: "lower" }));
  const e = doc({ workload: { name: "w", metrics } as never });
  expect(metrics.map((m) => metricLabel(e, m.name))).toEqual(["total bytes per second", "total seconds", "wall"]);
});

const summary = (o: Partial<ResultSummary>): ResultSummary => ({ id: "1", name: "startup", workload: "startup", started: "", grade: "A", pairs: 10, runs: 20, environments: ["native", "sgx"], cases: ["default"], comparisons: [comparison()], ...o });

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
