import { expect, test } from "vitest";
import { labelTexts, namesOf } from "./data";

test.each([
  ["the one label that differs", [{ process: "a", job: "t" }, { process: "b", job: "t" }], ["a", "b"]],
  ["two labels, in the order of their names", [{ process: "a", call: "x" }, { process: "b", call: "x" }, { process: "b", call: "y" }], ["x, a", "x, b", "y, b"]],
  ["all of them where one stands alone", [{ __name__: "up", process: "a", job: "t" }], ['up{process="a"}']],
  ["all of them where a label is missing", [{ process: "a" }, { call: "x" }], ['{process="a"}', '{call="x"}']],
  ["the machine too where a label is missing", [{ instance: "x", job: "t" }, { instance: "y", job: "t" }, { instance: "x", job: "t", call: "c" }], ['{instance="x"}', '{instance="y"}', '{instance="x", call="c"}']],
  ["the metric where that differs", [{ __name__: "a" }, { __name__: "b" }], ["a", "b"]],
])("series are named by %s", (_, metrics, names) => {
  const list = metrics as { [label: string]: string }[];
  expect(list.map(namesOf(list))).toEqual(names);
});

test("two targets are told apart by all labels, one machine is not named", () => {
  const of = (instance: string, job = "t") => ({ __name__: "up", instance, job });
  const texts = (list: { [label: string]: string }[]) => list.map(labelTexts(list));
  expect(texts([of("x"), of("y")])).toEqual(['up{instance="x"}', 'up{instance="y"}']);
  expect(texts([of("x"), of("x", "u")])).toEqual(['up{job="t"}', 'up{job="u"}']);
  expect(texts([of("x"), { __name__: "up", instance: "x", job: "t", process: "p" }])).toEqual(["up", 'up{process="p"}']);
});
