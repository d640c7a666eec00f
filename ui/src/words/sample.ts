// For tests: the server's words, and a comparison whose fields each test changes.
import { readFileSync } from "node:fs";
import type { ReportWords, ResultComparison } from "../api/types";
import { setWords } from "./benchmark";

setWords(JSON.parse(readFileSync(new URL("../../../internal/web/testdata/words.json", import.meta.url), "utf8")) as ReportWords);

export const comparison = (o: Partial<ResultComparison> = {}): ResultComparison => ({
  baseline: "native",
  treatment: "sgx",
  case: "default",
  metric: "startup_seconds",
  primary: true,
  headline: "sgx costs 3.12x [2.90, 3.41] as much as native on startup",
  changed_dimensions: null,
  estimator: "hodges-lehmann-signed-rank",
  ratio: 3.124,
  ci_low: 2.9,
  ci_high: 3.41,
  confidence: 0.95,
  cost_ratio: 3.124,
  cost_ci_low: 2.9,
  cost_ci_high: 3.41,
  boot_ci_low: null,
  boot_ci_high: null,
  n_pairs: 10,
  baseline_median: 1,
  treatment_median: 3.1,
  sd_log: 0.1,
  mde: 0.05,
  pairs_needed: 0,
  margin: 0.03,
  noise_floor: null,
  bound: "none",
  grade: "A",
  verdict: "cost",
  material: true,
  reasons: null,
  ladder_step: 0,
  ...o,
});
