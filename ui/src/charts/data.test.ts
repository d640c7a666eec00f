import { expect, test } from "vitest";
import { namesOf } from "./data";

test.each([
  ["the one label that differs", [{ process: "a", job: "t" }, { process: "b", job: "t" }], ["a", "b"]],
  ["two labels, in the order of their names", [{ process: "a", call: "x" }, { process: "b", call: "x" }, { process: "b", call: "y" }], ["x, a", "x, b", "y, b"]],
  ["all of them where one stands alone", [{ __name__: "up", process: "a", job: "t" }], ['up{process="a"}']],
  ["all of them where a label is missing", [{ process: "a" }, { call: "x" }], ['{process="a"}', '{call="x"}']],
  ["the metric where that differs", [{ __name__: "a" }, { __name__: "b" }], ["a", "b"]],
])("series are named by %s", (_, metrics, names) => {
  const list = metrics as { [label: string]: string }[];
  expect(list.map(namesOf(list))).toEqual(names);
});
