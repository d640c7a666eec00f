import { expect, test } from "vitest";
import type { FindingsRecord, Findings, Source, TEE } from "../api/types";
import { badgeOf, withArticle } from "../frame/tee-badge";
import type { Window } from "../state/window";
import { containerName } from "./container";
import { emptyReason, sentence, firstSentence } from "./empty";
import { findTerms, glossary } from "./glossary";
import { qualityOf } from "./quality";
import { openFindings, verdictOf, youth } from "./verdict";

const now = new Date("2026-05-02T15:00:00Z");
const rule = (answer: "fires" | "silent" | "cannot tell", reason?: string) => ({ name: "r", title: "R", doc: "", answer, at: "", windows: [300, 60] as [number, number], ...(reason ? { reason } : {}) });
const finding = (o: Partial<FindingsRecord>): FindingsRecord => ({ age: 0, id: "1", rule: "r", subject: "redis", title: "redis is slow.", severity: "warning", confidence: "high", evidence: null, remedy: "", reference: "", state: "open", since: now.toISOString(), lastSeen: now.toISOString(), ...o });
const cost = { cpu: { body: 0.002, userspace: 0.001 }, used: 0.003, rssBytes: 1, series: 1, budget: 0.01 };
const say = (f: Partial<Findings>) => verdictOf({ findings: null, rules: null, at: "", ...f }, cost, 212, now);

test("the verdict says nothing is wrong only when checks had an answer", () => {
  expect(say({ rules: [rule("silent")] })).toMatchObject({ level: "good", headline: "Nothing wrong in the last 5 min.", detail: "Watching 212 process names at a cost of 0.3 % of one core." });
  expect(say({ rules: [rule("silent"), rule("cannot tell")] }).detail).toContain("1 of 2 checks active; 1 lacks data here.");
  expect(say({ rules: [rule("cannot tell", "no samples")] })).toMatchObject({ level: "unknown", headline: "Not enough data yet to tell whether anything is wrong." });
  expect(say({}).level).toBe("unknown");
});

test("the verdict speaks of no more time than was watched, and of problems that ended in it", () => {
  const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000).toISOString();
  const headline = (f: FindingsRecord[], started?: string) => verdictOf({ findings: f, rules: [rule("silent")], at: "" }, null, null, now, started).headline;
  expect(headline([], ago(0.5))).toBe("Nothing wrong in the last 30 s.");
  expect(headline([], ago(600))).toBe("Nothing wrong in the last 5 min.");
  expect(headline([finding({ state: "closed", until: ago(2) })], ago(600))).toBe("Nothing wrong now; 1 problem ended in the last 5 min.");
  expect(headline([finding({ state: "closed", until: ago(6) }), finding({ state: "closed", severity: "info", until: ago(2) })], ago(600))).toBe("Nothing wrong in the last 5 min.");
});

test("a monitor that has just started says so", () => {
  const started = new Date(now.getTime() - 20_000).toISOString();
  expect(verdictOf({ findings: null, rules: [rule("cannot tell")], at: "" }, null, null, now, started).headline).toBe("The monitor started 20 s ago; the first answers take a minute.");
  expect([youth(100, 130), youth(100, 200), youth(null, 5)]).toEqual(["The monitor started 30 s ago; the first answers take a minute.", "", ""]);
});

test("what the monitor says of itself is no problem of the machine", () => {
  const v = say({ findings: [finding({ rule: "over_budget", subject: "teescope" })], rules: [rule("fires")] });
  expect(v).toMatchObject({ level: "good", headline: "Nothing wrong in the last 5 min." });
});

test("the verdict names the worst problem and since when", () => {
  const findings = [finding({ title: "slow", subject: "db" }), finding({ id: "2", severity: "critical", title: "very slow." }), finding({ state: "closed", severity: "critical" }), finding({ severity: "info" })];
  const v = say({ findings, rules: [rule("fires")] });
  expect(v.level).toBe("critical");
  expect(v.finding).toBe("2");
  expect(v.headline).toMatch(/^2 problems, the worst: very slow \(since \d\d:\d\d\)$/);
  expect(openFindings({ findings, rules: null, at: "" }).map((f) => f.severity)).toEqual(["critical", "warning", "info"]);
});

const w: Window = { from: 0, to: 300, step: 5, live: true, started: -1000, begin: 0, job: "teescope", instance: "vm", interval: 5 };
const source = (o: Partial<Source>): Source => ({ name: "syscalls", doc: "", state: "available", coverage: 1, missed: 0, folded: 0, series: 1, metrics: ["m"], ...o });
const why = (o: Partial<Source>, process = "", window = w) => emptyReason({ sources: [source(o)], metrics: ["m"], process, window });

test("an empty chart says why", () => {
  expect(why({ state: "off" })).toContain("switched off");
  expect(why({ state: "not here", reason: "CPUID has no SGX bit" })).toBe("This machine does not have this: CPUID has no SGX bit.");
  expect(why({ state: "unavailable", reason: "no BTF", remedy: "modprobe x" })).toBe("The source syscalls is unavailable: no BTF. Fix: modprobe x");
  expect(why({}, "nope")).toContain("No process matching nope did this in the last 5 min.");
  expect(why({}, "nope", { ...w, live: false })).toContain("in these 5 min.");
  expect(why({ state: "off", optIn: true })).toContain("off by default");
  expect(why({ state: "off", auto: true, reason: "off until an enclave runs" })).toBe("The source syscalls is off until an enclave runs. It then switches on automatically.");
  expect(why({ process: "redis", pids: [7, 8] })).toContain("only counts processes matching redis, with the process ids 7, 8;");
  expect(why({ cgroup: "web" })).toContain("only counts processes in control groups matching web;");
  expect(why({ state: "degraded", blind: true, reason: "budget", remedy: "raise --budget" })).toBe("Counters of syscalls are unavailable here: the budget does not allow counting these events. Fix: raise --budget");
  expect(emptyReason({ sources: [source({ name: "a", state: "not here", reason: "no CPU" }), source({ name: "b", state: "off" })], metrics: ["m"], process: "", window: w })).toContain("The source b is switched off");
  expect(why({}, "", { ...w, started: 290 })).toContain("just started");
  expect(why({}, "", { ...w, started: 400 })).toContain("before the monitor started");
  expect(sentence("read /proc/x: gone")).toBe("Read /proc/x: gone.");
});

test("one phrase says how good the numbers are", () => {
  const estimate = source({ name: "syscalls", coverage: 0.2, error: 0.09 });
  expect(qualityOf([source({}), estimate, source({ name: "net", state: "off" }), source({ name: "tcp", state: "off", optIn: true })])).toMatchObject({ text: "estimates ±18 %, 1 source off", level: "warning" });
  expect(qualityOf([{ ...estimate, error: 0.01, restError: 0.09 }]).text).toBe("estimates ±18 %");
  const llc = qualityOf([source({ name: "llc", blind: true, state: "degraded", reason: "this virtual machine has no PMU" })]);
  expect(llc).toMatchObject({ text: "full counts", level: "good" });
  expect(llc.groups).toEqual([{ title: "Not on this machine", sources: [{ name: "llc", text: "This virtual machine has no PMU." }] }]);
  expect(qualityOf([source({ blind: true, reason: "budget" })]).text).toBe("1 source off");
  expect(qualityOf([source({ state: "unavailable", reason: "no BTF", remedy: "modprobe x" })]).groups[0]).toEqual({ title: "Failed", sources: [{ name: "syscalls", text: "No BTF. Fix: modprobe x." }] });
});

test("terms are found once, the longest first, and not inside words", () => {
  const found = findTerms("SEV-SNP guest: EPC, epc and SEV; SEVERAL enclaves").filter((p) => p.term);
  expect(found.map((p) => [p.text, p.term])).toEqual([["SEV-SNP", "SEV-SNP"], ["EPC", "EPC"], ["SEV", "SEV"], ["enclaves", "enclave"]]);
  expect(findTerms("a EPC b").map((p) => p.text).join("")).toBe("a EPC b");
  for (const text of Object.values(glossary)) expect(text).toMatch(/^[^!]+\.$/);
});

const tee = (o: Partial<TEE>): TEE => ({ kind: "sev", doc: "", state: "not here", ...o });
const facts = { kind: "sev", variant: "sev-snp", role: "guest" as const, active: true, evidence: null };

test("the badge never claims more than detection", () => {
  expect(badgeOf([tee({}), tee({ kind: "sgx" })])).toMatchObject({ text: "no TEE here", title: "Looked for SEV, SGX." });
  expect(badgeOf([tee({ state: "here", facts })]).text).toBe("SEV-SNP guest, detected");
  expect(badgeOf([tee({ state: "here", facts: { ...facts, debug: true } })]).text).toContain("debug");
  expect(badgeOf([tee({ state: "here", facts: { ...facts, active: false } })]).level).toBe("inactive");
  expect(badgeOf([tee({ state: "could not tell", reason: "no permission" }), tee({})])).toMatchObject({ level: "unknown", text: "TEE: unknown" });
});

test("names have their article", () => {
  expect(["SEV-SNP", "TDX", "NVIDIA confidential GPU", "Nitro"].map(withArticle)).toEqual(["an SEV-SNP", "a TDX", "an NVIDIA confidential GPU", "a Nitro"]);
});

test("a container has the shortest name that finds it", () => {
  const hex = "0123456789abcdef".repeat(4);
  expect(containerName({ id: `/docker/${hex}` })).toBe("0123456789ab");
  expect(containerName({ id: `/x/${hex}`, namespace: "shop", pod: "cart-1", container: "app" })).toBe("shop/cart-1/app");
  expect(containerName({ id: `/x/${hex}`, name: hex, namespace: "shop", pod: "cart-1", container: "" })).toBe("shop/cart-1/sandbox");
  expect(containerName({ id: "/x", name: "", namespace: "shop", pod: "cart-1", container: "" })).toBe("shop/cart-1");
  expect(containerName({ id: "/system.slice/ssh.service" })).toBe("ssh.service");
});

test("a text is cut after its first sentence", () => {
  expect(firstSentence("More than 1.5 times, e.g. here. The rest. And more.")).toEqual({ first: "More than 1.5 times, e.g. here.", rest: "The rest. And more." });
  expect(firstSentence("No end")).toEqual({ first: "No end", rest: "" });
});
