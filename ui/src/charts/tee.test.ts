import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Source, TEE } from "../api/types";
import type { Window } from "../state/window";
import { allCharts, teeCharts } from "./tee";

const w: Window = { from: 0, to: 300, step: 5, live: true, started: null, begin: 0, job: "teescope", instance: "vm", interval: 5 };
const source = (name: string, metrics: string[], o: Partial<Source> = {}): Source => ({ name, doc: "", state: "available", series: 3, metrics, ...o });
const tee = (kind: string, state: string, role: "host" | "guest" | "device" = "host"): TEE => ({ kind, doc: "", state, ...(state === "here" ? { facts: { kind, role, active: true, evidence: null } } : {}) });
const titles = (tees: TEE[], sources: Source[]) => teeCharts(tees, sources, w).map((c) => c.title);

const exits = source("kvm", ["tee_vm_exits_total"]);
const transitions = source("runtimes", ["tee_sgx_enclave_entries_total"], { state: "off", series: 0, optIn: true });

test("a chart shows where its source delivers, whatever was detected", () => {
  expect(titles([tee("sgx", "not here")], [exits])).toEqual(["Exits per second, by reason", "Exits per second, by virtual machine"]);
  expect(titles([tee("sgx", "not here")], [{ ...exits, series: 0 }])).toEqual([]);
});

test("of what is here or may be, charts show that could have something", () => {
  expect(titles([tee("sgx", "not here")], [transitions])).toEqual([]);
  for (const state of ["here", "could not tell"]) expect(titles([tee("sgx", state)], [transitions])).toContain("Enclave transitions per second");
  expect(titles([tee("sgx", "here")], [{ ...transitions, state: "not here" }])).toEqual([]);
  expect(titles([tee("tdx", "here", "guest")], [source("guest_exits", ["tee_guest_exceptions_total"], { state: "unavailable", series: 0 })])).toEqual(["Exceptions of the guest per second, by reason"]);
});

test("every chart has a title of its own, asks for this machine only, and for metrics that there are", () => {
  const dir = new URL("../../../internal/probe/sources/", import.meta.url);
  const code = readdirSync(dir).filter((f) => f.endsWith(".go")).map((f) => readFileSync(new URL(f, dir), "utf8")).join("");
  const all = allCharts(w);
  expect(new Set(all.map((c) => c.title)).size).toBe(all.length);
  for (const c of all) {
    for (const m of c.metrics) expect(code, c.title).toContain(`"${m}"`);
    const queries = c.lines?.map((l) => l.expr) ?? [c.expr ?? ""];
    for (const q of queries) {
      const asked = [...q.matchAll(/tee_\w+/g)].map((m) => m[0].replace(/_bucket$/, ""));
      expect(asked.length, c.title).toBeGreaterThan(0);
      for (const m of asked) expect(code, c.title).toContain(`"${m}"`);
      expect(q.split("tee_").length, c.title).toBe(q.split('{job="teescope",instance="vm"}').length);
    }
  }
});
