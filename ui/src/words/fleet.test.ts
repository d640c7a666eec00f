import { expect, test } from "vitest";
import type { FleetKind, FleetPage } from "../api/types";
import { fleetVerdict, healths, machineOf, nameOf, several, teeWords } from "./fleet";

const kind = (k: Partial<FleetKind>): FleetKind => ({ tee: "none", machines: 0, gone: 0, critical: 0, warning: 0, unknown: 0, good: 0, ...k });
const page = (all: number, ...kinds: Partial<FleetKind>[]): FleetPage => ({ at: "2026-01-02T03:04:05Z", all, matched: all, machines: [], kinds: kinds.map(kind) });

test.each<[FleetPage, string, string]>([
  [page(1, { good: 1 }), "good", "No problem on the only machine."],
  [page(4, { good: 4 }), "good", "No problem on any of 4 machines."],
  [page(4, { good: 3, warning: 1 }), "warning", "1 of 4 machines has a problem."],
  [page(9, { good: 4, warning: 1 }, { tee: "sgx host", critical: 2, gone: 1, unknown: 1 }), "critical", "3 of 9 machines have a problem; 1 does not answer; 1 is not checked yet."],
  [page(3, { gone: 2, good: 1 }), "warning", "2 of 3 machines do not answer."],
  [page(3, { unknown: 2, good: 1 }), "unknown", "2 of 3 machines are not checked yet."],
])("the sentence above the list: %#", (f, level, headline) => expect(fleetVerdict(f)).toMatchObject({ level, headline }));

test("the list says of when it is", () => {
  const at = new Date(2026, 0, 2, 3, 4, 5).toISOString();
  expect(fleetVerdict({ ...page(1, { good: 1 }), at }).detail).toMatch(/^The list was made at .*3:04/);
});

test("the worst state is listed first", () => expect(healths).toEqual(["gone", "critical", "warning", "unknown", "good"]));

test.each([
  ["sev-snp guest", "SEV-SNP guest"],
  ["sgx host", "SGX host"],
  ["nvidia-cc device", "NVIDIA confidential GPU device"],
  ["none", "no TEE"],
  ["unknown", "TEE unknown"],
  ["of the future", "of the"],
])("%s is %s", (tee, words) => expect(teeWords(tee)).toBe(words));

test("the monitor's own machine is the bare address", () => {
  expect(machineOf({ own: true, job: "teescope", instance: "vm" })).toBeNull();
  expect(machineOf({ job: "agents", instance: "n" })).toEqual({ job: "agents", instance: "n" });
});

test("a name says what the instance does not", () => {
  expect([nameOf({ name: "a", instance: "a" }), nameOf({ name: "a", instance: "10.0.0.1:9781" })]).toEqual(["a", "a (10.0.0.1:9781)"]);
});

test("one machine is no choice", () => expect([several(null), several(page(1)), several(page(2))]).toEqual([false, false, true]));
