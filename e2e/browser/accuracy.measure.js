// The rates on the page of a live machine are within 2 % of the kernel's own account of a server.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { chart, cleanUp, countAt, drawn, missing, openPage, reached, startMonitor, startRedis, until } from "./harness.js";

const byCall = "System calls per second, by call";

after(cleanUp);

test("the rate shown is the server's own count within 2 %: filtered, after reload, in the dark", { skip: missing({ redis: true }) }, async (t) => {
  const url = await startMonitor();
  const redis = await startRedis();
  const legend = (page, title) => chart(page, title).locator("tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.dataset.name, { mean: Number(r.dataset.mean) }])));
  // The window goes from one reading to another, and the kernel's account is read at both, so the
  // load before and after them is in neither number. On a busy machine both may be late; then
  // their times are unknown, and the test uses other readings.
  const { counts, end } = redis.watch();
  const asked = "teescope_source_read_seconds[1m]";
  const window = await until("readings half a minute apart that were quick", async () => {
    const { data } = await (await fetch(`${url}/api/v1/query?query=${encodeURIComponent(asked)}`)).json();
    const took = new Map();
    for (const { values } of data.result) for (const [time, seconds] of values) took.set(time, (took.get(time) ?? 0) + Number(seconds));
    const quick = [...took].filter(([time, seconds]) => seconds < 0.1 && countAt(counts, time)?.within < 0.1).map(([time]) => time).sort((a, b) => a - b);
    return quick.at(-1) - quick[0] > 28 && { first: quick[0], to: quick.at(-1) };
  });
  end();
  const [first, last] = [countAt(counts, window.first), countAt(counts, window.to)];
  const seconds = window.to - window.first;
  const want = { read: (last.read - first.read) / seconds, write: (last.write - first.write) / seconds };
  const near = (got, call, where) => {
    const off = Math.abs(got / want[call] - 1);
    t.diagnostic(`${where}: ${call} ${got.toFixed(1)}/s shown, ${want[call].toFixed(1)}/s counted, ${(off * 100).toFixed(3)} % off`);
    assert.ok(off < 0.02, `${where}: ${call} ${got}/s, the kernel counted ${want[call]}/s for the process: ${(off * 100).toFixed(2)} % off`);
  };
  // A window begins after its first instant.
  const search = `from=${window.first - 0.001}&to=${window.to}`;
  const { page, check } = await openPage(`${url}/?page=processes&${search}&process=${redis.name}`, { colorScheme: "dark" });
  for (const where of ["processes", "processes after reload"]) {
    await drawn(page, byCall);
    const shown = await legend(page, byCall);
    for (const call of ["read", "write"]) near(shown[call].mean, call, where);
    await page.reload();
  }
  await page.goto(`${url}/?page=processes&subject=${redis.name}&${search}`);
  await reached(page.getByRole("region", { name: "System calls by call" }), page.locator("#calls tr[data-call=read]"));
  for (const call of ["read", "write"]) near(Number(await page.locator(`#calls tr[data-call=${call}] td[data-value]`).getAttribute("data-value")), call, "process");
  await check();
});
