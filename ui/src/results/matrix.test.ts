import { expect, test } from "vitest";
import type { ResultSummary } from "../api/types";
import { comparison } from "../words/sample";
import { matrixOf } from "./matrix";

const result = (o: Partial<ResultSummary>): ResultSummary => ({ id: "r", name: "startup", workload: "startup", started: "2026-05-01T00:00:00Z", grade: "A", pairs: 10, runs: 20, environments: null, cases: null, comparisons: [comparison()], origin: { word: "unattested", line: "unattested" }, ...o });

test("a cell is the newest result of its workload and pair, reruns are its trend", () => {
  const m = matrixOf([
    result({ id: "old", comparisons: [comparison({ cost_ratio: 4 })] }),
    result({ id: "new", started: "2026-05-03T00:00:00Z", comparisons: [comparison({ cost_ratio: 3 }), comparison({ treatment: "tdx", cost_ratio: 1.1 })] }),
    result({ id: "refused", started: "2026-05-02T00:00:00Z", comparisons: [comparison({ cost_ratio: 9, verdict: "invalid" })] }),
    result({ id: "redis", workload: "redis", comparisons: [comparison({ cost_ratio: null, ratio: null, verdict: "invalid" })] }),
    result({ id: "aa", workload: "aa", calibration: true }),
    result({ id: "single", workload: "single", comparisons: null }),
  ]);
  expect(m.columns).toEqual([
    { baseline: "native", treatment: "sgx" },
    { baseline: "native", treatment: "tdx" },
  ]);
  expect(m.rows.map((r) => [r.workload, r.cells.map((c) => c && [c.result.id, c.trend])])).toEqual([
    ["redis", [["redis", []], null]],
    ["startup", [["new", [4, 3]], ["new", [1.1]]]],
  ]);
});
