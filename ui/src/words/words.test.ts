import { expect, test } from "vitest";
import type { FindingsRecord, Findings, Source, TEE } from "../api/types";
import { badgeOf, withArticle } from "../frame/tee-badge";
import type { Window } from "../state/window";
import { containerName } from "./container";
import { emptyReason, sentence, firstSentence } from "./empty";
import { findTerms, glossary } from "./glossary";
import { qualityOf } from "./quality";
import { openFindings, verdictOf } from "./verdict";

const now = new Date("2026-05-02T15:00:00Z");
const cost = { cpu: { body: 0.002, userspace: 0.001 }, used: 0.003, rssBytes: 1, series: 1, budget: 0.01 };
const answer = (o: Partial<Findings>): Findings => ({ findings: null, rules: null, at: "", problems: null, summary: { level: "good", headline: "Nothing wrong in the last 5 min.", checks: "2 of 2 checks ran" }, ...o });

test("the verdict is the server's, with the cost of watching", () => {
  expect(verdictOf(answer({}), cost, 212, now)).toEqual({ level: "good", headline: "Nothing wrong in the last 5 min.", detail: "Watching 212 process names at a cost of 0.3 % of one core." });
  expect(verdictOf(null, cost, 212, now).level).toBe("unknown");
  const summary = { level: "warning" as const, headline: "1 problem: redis waits", detail: "1 of 2 checks ran; 1 lacks data here.", checks: "" };
  const v = verdictOf(answer({ summary, problems: [{ title: "redis waits", severity: "warning", lead: "7", since: now.toISOString(), effects: null }] }), null, 1, now);
  expect(v).toMatchObject({ level: "warning", finding: "7", detail: "1 of 2 checks ran; 1 lacks data here. Watching 1 process name." });
  expect(v.headline).toMatch(/^1 problem: redis waits \(since \d\d:\d\d\)$/);
});

test("open findings are the worst first, then the oldest", () => {
  const finding = (o: Partial<FindingsRecord>): FindingsRecord => ({ age: 0, id: "1", rule: "r", subject: "redis", title: "redis is slow.", severity: "warning", confidence: "high", evidence: null, remedy: "", reference: "", state: "open", since: now.toISOString(), lastSeen: now.toISOString(), ...o });
  const findings = [finding({}), finding({ severity: "critical" }), finding({ state: "closed", severity: "critical" }), finding({ severity: "info" })];
  expect(openFindings(answer({ findings })).map((f) => f.severity)).toEqual(["critical", "warning", "info"]);
});

const w: Window = { from: 0, to: 300, step: 5, live: true, started: -1000, begin: 0, job: "teescope", instance: "vm", interval: 5 };
const source = (o: Partial<Source>): Source => ({ name: "syscalls", doc: "", state: "available", coverage: 1, missed: 0, folded: 0, series: 1, metrics: ["m"], ...o });
const why = (o: Partial<Source>, process = "", window = w) => emptyReason({ sources: [source(o)], metrics: ["m"], process, window });

test("an empty chart says why", () => {
  expect(why({ state: "off" })).toContain("switched off");
  expect(why({ state: "not here", reason: "CPUID has no SGX bit" })).toBe("This machine does not have what the source syscalls measures: CPUID has no SGX bit.");
  expect(why({ state: "unavailable", reason: "no BTF", remedy: "modprobe x" })).toBe("The source syscalls is unavailable: no BTF. Fix: modprobe x");
  expect(why({}, "nope")).toContain("No samples of a process that matches nope in the last 5 min.");
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
  const estimate = source({ name: "syscalls", coverage: 0.2, estimated: true, error: 0.09 });
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
