import { expect, test } from "vitest";
import type { Window } from "../state/window";
import { among, counted, counters, increaseBy, literal, processFilter, quote, rateBy, rateWindow, select } from "./promql";

const short: Window = { from: 0, to: 300, step: 5, live: true, started: null, begin: 0, job: "teescope", instance: "vm", interval: 5 };
const long: Window = { ...short, to: 86400, step: 300 };

test("a filter is unanchored and escaped for PromQL", () => {
  expect(select("m", processFilter('a|b\\.c"d'))).toBe('m{process=~".*(?:a|b\\\\.c\\"d).*"}');
  expect(processFilter("")).toEqual([]);
});

test("a name matches itself alone", () => {
  const names = ["npm exec a.b", "[kworker/0:1]", "c++", "a\\b", 'quo"te', "$x^y"];
  for (const n of names) expect(new RegExp(`^(?:${literal(n)})$`).test(n)).toBe(true);
  expect(new RegExp(`^(?:${literal("a.b")})$`).test("axb")).toBe(false);
  expect(quote('a"b\\c\nd')).toBe('"a\\"b\\\\c\\nd"');
});

test("short windows read counters, long ones what is recorded", () => {
  expect(rateBy(counters.syscalls, "process", [], short)).toBe('sum by (process) (rate(tee_syscalls_total{job="teescope",instance="vm"}[20s]))');
  expect(rateBy(counters.syscalls, "process", [], long)).toBe('sum by (process) (avg_over_time(process:tee_syscalls:rate1m{job="teescope",instance="vm"}[300s]))');
  expect(increaseBy(counters.syscalls, "process", [], long)).toBe('sum by (process) (sum_over_time(process:tee_syscalls:rate1m{job="teescope",instance="vm"}[86400s])) * 30');
});

test("a condition that is not recorded needs the counters", () => {
  expect(rateBy(counters.syscallsByCall, "syscall", processFilter("redis"), long)).toContain("rate(tee_syscalls_total{");
  expect(increaseBy(counters.syscallsByCall, "syscall", [], long)).toContain("syscall:tee_syscalls:rate1m");
});

test("the rate's window covers four steps and four readings", () => expect([rateWindow(short), rateWindow(long), rateWindow({ ...short, interval: 15 })]).toEqual(["20s", "1200s", "60s"]));

test("names are taken literally", () => expect(among("process", ["a|b"], "=~").value).toBe("a\\|b"));

test("a sum over devices counts each byte once", () => {
  expect(counted("rate(node_disk_read_bytes_total[1m])", "tee_disk_counted", [{ label: "instance", op: "=", value: "vm" }])).toBe(
    'rate(node_disk_read_bytes_total[1m]) and on (job, instance, device) tee_disk_counted{instance="vm"} == 1',
  );
});
