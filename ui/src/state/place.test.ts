import { expect, test } from "vitest";
import { formatPlace, goTo, home, misread, parsePlace, type Place } from "./place";
import { gridOf, stepFor, windowOf } from "./window";

const monitor = { started: null, job: "", instance: "", interval: 5 };

test("every part of a place survives the URL", () => {
  const p: Place = {
    page: "explore",
    machine: { job: "agents/a", instance: "node-1:9781 & co" },
    range: home.range,
    fixed: { from: 1700000000, to: 1700000090.5 },
    before: { from: 1699990000, to: 1699990090 },
    process: "redis|^a+b&c=\\d #%",
    refresh: 30,
    subject: "näme with / and ?",
    beside: ["b", "c d"],
    filter: { text: "redis & co", workload: "startup", environment: "sgx", verdict: "cost", grade: "A" },
    per: "request",
    tab: "changes",
    sort: "wait",
    problem: "a b&c",
    expr: 'sum(rate(x{a="b"}[1m])) > 1',
  };
  expect(parsePlace(formatPlace(p))).toEqual(p);
});

test("home is the bare address", () => expect([formatPlace(home), parsePlace("")]).toEqual(["", home]));

test.each(["?page=nowhere", "?range=1y", "?from=5", "?from=9&to=3", "?from=x&to=y", "?from=1&to=Infinity", "?beforeFrom=9&beforeTo=3", "?per=fortnight", "?tab=upside-down", "?sort=1", "?refresh=1", "?machine=node-1", "?job=agents"])("%s counts as absent", (s) => {
  expect(parsePlace(s)).toEqual(home);
});

test.each([
  ["", ""],
  ["?page=tee&from=3&to=13", ""],
  ["?page=tee&from=3&to=9", "The window in the address is shorter than 10 s, so charts can be empty. Choose a longer window."],
  ["?from=9&to=3", "The window in the address ends before it begins. The live window is shown instead."],
  ["?from=9&to=9", "The window in the address ends before it begins. The live window is shown instead."],
  ["?from=5", "The window in the address needs two times in Unix seconds, from and to. The live window is shown instead."],
  ["?from=x&to=2026-01-01", "The window in the address needs two times in Unix seconds, from and to. The live window is shown instead."],
  ["?from=3&to=90&beforeFrom=9&beforeTo=3", "The comparison window in the address ends before it begins. Nothing is compared."],
  ["?machine=node-1&job=agents", ""],
  ["?machine=node-1", "The address names a machine incompletely: it needs both machine and job. The monitor's own machine is shown instead."],
  ["?job=agents", "The address names a machine incompletely: it needs both machine and job. The monitor's own machine is shown instead."],
])("%s: what is wrong with its windows and machine is said", (search, said) => {
  expect(misread(search)).toBe(said);
});

test("another page keeps machine, window and filter and drops the selection", () => {
  const p = goTo({ ...home, machine: { job: "j", instance: "i" }, process: "x", subject: "y", before: { from: 1, to: 2 }, per: "request", tab: "changes", sort: "wait", problem: "p", beside: ["b"], filter: { ...home.filter, text: "t" }, expr: "z", range: "6h" }, "tee");
  expect(p).toEqual({ ...home, machine: { job: "j", instance: "i" }, page: "tee", process: "x", range: "6h" });
});

test("a chart has at most 361 points, on multiples of its step", () => {
  for (const range of ["5m", "15m", "1h", "6h", "24h", "7d"] as const) {
    const w = windowOf({ ...home, range }, 1700000123.4, null, monitor);
    expect(gridOf(w).length).toBeLessThanOrEqual(361);
    expect([w.from % w.step, w.to % w.step]).toEqual([0, 0]);
  }
});

test("all begins at the oldest sample", () => {
  const w = windowOf({ ...home, range: "all" }, 1_000_000, 1_000_000 - 7200, monitor);
  expect(w.to - w.from).toBeGreaterThanOrEqual(7200);
  expect(w.to - w.from).toBeLessThan(7200 + 2 * stepFor(7200));
});

test("a fixed window is exact and does not move", () => {
  const w = windowOf({ ...home, fixed: { from: 1001, to: 1062 } }, 5000, null, monitor);
  expect([w.from, w.to, w.live]).toEqual([1001, 1062, false]);
});
