import { expect, test } from "vitest";
import type { Annotation } from "../api/types";
import { marksOf } from "./marks";

const mark = (time: number, timeEnd: number | undefined, tags: string[] | null): Annotation => ({ id: "", time, ...(timeEnd === undefined ? {} : { timeEnd }), title: "t", text: "", tags });

test("marks are cut to the window, and one without an end goes on", () => {
  const w = { from: 100, to: 200 };
  const marks = marksOf([mark(50_000, 120_000, ["warning"]), mark(150_000, undefined, ["x", "critical"]), mark(10_000, 90_000, null), mark(250_000, undefined, null)], w);
  expect(marks).toEqual([
    { from: 100, to: 120, title: "t", level: "warning" },
    { from: 150, to: 200, title: "t", level: "critical" },
  ]);
  expect(marksOf(null, w)).toEqual([]);
});
