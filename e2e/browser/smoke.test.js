// The one test of the page with a live machine: a real server under load, monitored by eBPF, is found
// on the page. Everything else is tested with recorded hosts.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { chart, cleanUp, drawn, missing, openPage, startMonitor, startRedis, until } from "./harness.js";

after(cleanUp);

test("a real server under load is found through the filter, with its calls", { skip: missing({ redis: true }) }, async () => {
  const url = await startMonitor();
  const redis = await startRedis();
  const { page, check } = await openPage(url);
  await page.getByRole("region", { name: "Verdict" }).waitFor();
  await page.getByRole("link", { name: "Processes", exact: true }).click();
  const field = page.getByRole("combobox", { name: /Process filter/ });
  await field.fill(redis.name);
  await page.getByText("1 match").waitFor();
  await field.press("Escape");
  const title = "System calls per second, by call";
  await drawn(page, title);
  const shown = () => chart(page, title).locator("tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.dataset.name, Number(r.dataset.now)])));
  await until("its reads and writes are shown", async () => {
    const now = await shown();
    return now.read > 0 && now.write > 0;
  });
  await page.locator(`#processes tr[data-name="${redis.name}"]`).getByRole("link").click();
  await page.locator(`[data-explained="${redis.name}"]`).waitFor();
  assert.equal(await page.locator("[data-pids]").getAttribute("data-pids"), String(redis.pid));
  await check();
});
