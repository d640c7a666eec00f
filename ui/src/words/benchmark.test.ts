import { expect, test } from "vitest";
import type { ResultGuard } from "../api/types";
import { allKinds, armShape, costText, designText, doubtsOf, gradeMeans, headlineOf, kindOf, levelOf, lookOf, securityText, shellLine } from "./benchmark";
import { comparison } from "./sample";

test("a cost between machines is called neither cost nor gain", () => {
  expect(kindOf(comparison())).toBe("cost");
  for (const grade of ["C", "D"] as const) expect(kindOf(comparison({ grade }))).toBe("platform");
  expect(kindOf(comparison({ grade: "D", verdict: "inconclusive" }))).toBe("inconclusive");
  expect(kindOf(comparison({ verdict: "" as never }))).toBe("none");
  expect(kindOf(comparison({ stand_in: "vm is emulated in software" }))).toBe("stand-in");
  expect(kindOf(comparison({ stand_in: "vm is emulated in software", verdict: "invalid" }))).toBe("invalid");
  expect(new Set(allKinds().map(lookOf).map((l) => `${l.shape} ${l.word}`)).size).toBe(8);
});

test("words that a document of a later version has are not known, and do not end the page", () => {
  expect([gradeMeans("A"), gradeMeans(""), gradeMeans("Z" as never)]).toEqual(["same host, interleaved", "not graded", "not graded"]);
  expect([designText("blocked"), designText("new" as never)]).toEqual(["alternating blocks", "design not recorded"]);
  expect([levelOf("invalid").word, levelOf("new" as never).word]).toEqual(["refused", "note"]);
  expect(kindOf(comparison({ verdict: "new" as never }))).toBe("none");
  expect([armShape(0), armShape(9)]).toEqual(["disc", "square"]);
});

test("the headline leaves its verdict to the chip and names its case among several", () => {
  expect(headlineOf(comparison({ headline: "invalid: sgx changed", verdict: "invalid" }))).toBe("sgx changed");
  expect(headlineOf(comparison({ case: "threads=4" }), 2)).toMatch(/^threads=4: sgx costs/);
  expect(headlineOf(comparison({ headline: "stand-in: vm is at 9x", stand_in: "vm is emulated in software" }))).toBe("stand-in: vm is at 9x");
  expect(headlineOf(comparison({ headline: "" }))).toBe("sgx against native on startup seconds: cost");
});

test("a cost is said with its interval and its bound, or why there is none", () => {
  expect(costText(comparison(), "lower").text).toBe("3.12x [2.9, 3.41]");
  expect(costText(comparison({ stand_in: "vm is emulated in software" }), "lower").text).toBe("stand-in 3.12x [2.9, 3.41]");
  expect(costText(comparison({ bound: "ge" }), "lower").text).toBe("≥ 3.12x [2.9, 3.41]");
  expect(costText(comparison({ bound: "ge" }), "higher").text).toBe("≤ 3.12x [2.9, 3.41]");
  expect(costText(comparison({ cost_ci_low: null }), "lower").text).toBe("3.12x, interval missing");
  expect(costText(comparison({ cost_ratio: null }), "none").text).toBe("ratio 3.12x [2.9, 3.41]");
  expect(costText(comparison({ cost_ratio: null, ratio: null, reasons: ["no values", "too few"] }), "lower")).toMatchObject({ text: "missing", missing: "no values; too few" });
});

test("doubts are reasons and the guards that concern the comparison, each once", () => {
  const guard = (o: Partial<ResultGuard>): ResultGuard => ({ id: "g", level: "warn", message: "noisy", help: "wait", ...o });
  const guards = [guard({}), guard({}), guard({ level: "info", message: "a note" }), guard({ treatment: "sgx", message: "of another baseline", help: "look" }), guard({ id: "several-dimensions", message: "kernel a / b", help: "make them equal" })];
  const c = comparison({ reasons: ["noisy", "", "in the headline", "in a detail", "kernel a / b"], details: ["In a detail."], verdict: "inconclusive", open: "40 pairs in all would probably decide (4 in 5)" });
  expect(doubtsOf(c, guards, "sgx: in the headline")).toEqual({ said: ["noisy"], next: ["40 pairs in all would probably decide (4 in 5)", "wait"] });
});

test("protection is never claimed beyond what was seen", () => {
  const tee = { type: "sgx", active: true, debug: false, declared: false, facts: null, evidence: null, settings: null };
  expect(securityText(tee)).toBe("sgx, detected from inside");
  expect(securityText({ ...tee, declared: true, debug: true })).toBe("sgx, declared by the launcher, not seen from inside, debug: not protected");
  expect([securityText({ ...tee, type: "none" }), securityText({ ...tee, type: "unknown" })]).toEqual(["no TEE", ""]);
});

test("commands read back", () => {
  expect(shellLine(["teescope", "--param", "a=1|2", "it's"])).toBe(`teescope --param 'a=1|2' 'it'\\''s'`);
});
