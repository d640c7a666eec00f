import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { changed, getShared } from "./shared";

let asked: { url: string; signal: AbortSignal; answer: (value: unknown) => void }[];
beforeEach(() => {
  asked = [];
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => new Promise((resolve) => asked.push({ url, signal, answer: (value) => resolve(new Response(JSON.stringify(value))) })));
});
afterEach(() => vi.unstubAllGlobals());

test("the same document is asked for once at a time, and again later", async () => {
  const all = [getShared("a"), getShared("a"), getShared("b")];
  expect(asked.map((a) => a.url)).toEqual(["a", "b"]);
  asked.forEach((a, i) => a.answer(i));
  expect(await Promise.all(all)).toEqual([0, 0, 1]);
  const later = getShared("a");
  asked[2]!.answer("new");
  expect(await later).toBe("new");
});

test("who stops waiting ends the request only if nobody else waits", async () => {
  const [one, two] = [new AbortController(), new AbortController()];
  const shared = getShared("a", one.signal);
  void getShared("a", two.signal);
  one.abort();
  expect(asked[0]!.signal.aborted).toBe(false);
  two.abort();
  expect(asked[0]!.signal.aborted).toBe(true);
  void getShared("a");
  expect(asked.length).toBe(2);
  asked[0]!.answer(1);
  await shared;
});

test("after a change nobody gets an answer from before", async () => {
  const before = getShared("c");
  changed();
  const after = getShared("c");
  asked[0]!.answer("old");
  asked[1]!.answer("new");
  expect(await Promise.all([before, after])).toEqual(["old", "new"]);
});

test("a failure is everybody's, and the next one asks again", async () => {
  vi.stubGlobal("fetch", async () => new Response('{"error":"no"}', { status: 404 }));
  const both = [getShared("d"), getShared("d")];
  for (const p of both) await expect(p).rejects.toThrow("no");
  vi.stubGlobal("fetch", async () => new Response("2"));
  expect(await getShared("d")).toBe(2);
});
