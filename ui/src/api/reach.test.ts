import { afterEach, expect, test, vi } from "vitest";
import { lostSince } from "./reach";
import { request } from "./request";

afterEach(() => vi.unstubAllGlobals());

test("a monitor is gone when nothing answers, and back with any answer, also a refusal", async () => {
  expect(lostSince()).toBe(null);
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
  await expect(request("x", {})).rejects.toThrow("does not answer");
  const since = lostSince();
  expect(since).toBeGreaterThan(0);
  await expect(request("x", {})).rejects.toThrow("does not answer");
  expect(lostSince()).toBe(since);
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("{}", { status: 404 })));
  await expect(request("x", {})).rejects.toThrow("404");
  expect(lostSince()).toBe(null);
});

test("a question that was withdrawn says nothing about the monitor", async () => {
  const control = new AbortController();
  control.abort();
  vi.stubGlobal("fetch", () => Promise.reject(new DOMException("", "AbortError")));
  await expect(request("x", { signal: control.signal })).rejects.toThrow();
  expect(lostSince()).toBe(null);
});
