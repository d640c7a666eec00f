// What the other tests rely on: a wait ends with the program that it waits for.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cleanUp, start, until } from "./harness.js";

after(cleanUp);

test("a wait ends at once, with the last words, when a program ends", async () => {
  start("sh", ["-c", "echo no such folder >&2; exit 3"]);
  await assert.rejects(
    until("the port answers", () => false),
    /the port answers: sh ended: exit status 3; it printed\nno such folder/,
  );
  await cleanUp();
});

test("what a program did last counts, and one that was stopped is not missed", async () => {
  const p = start("sh", ["-c", "echo ready; exec sleep 600"]);
  assert.equal(await until("it is ready", () => p.output()), "ready\n");
  await p.stop();
  assert.equal(await until("there is nothing to wait for", () => "done"), "done");
  let tries = 0;
  assert.equal(await until("a second look", () => ++tries === 2 && "seen"), "seen");
});

test("a program that is not there", async () => {
  start("teescope-none", []);
  await assert.rejects(
    until("it answers", () => false),
    /it answers: teescope-none ended: exit status 127/,
  );
  await cleanUp();
});
