// A source that the page sets to count 25 % of the time counts 10 to 40 % of it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cleanUp, missing, openPage, startMonitor, until } from "./harness.js";

after(cleanUp);

test("a source that is to count 25 % of the time counts 10 to 40 %", { skip: missing() }, async () => {
  const url = await startMonitor();
  const { page, check } = await openPage(`${url}/?page=settings&range=5m`);
  const item = page.locator("tbody[data-source=pagecache]");
  await item.getByText("Settings and details").click();
  const box = page.getByRole("textbox", { name: "Sampling of pagecache, percent of the time" });
  await box.fill("25 %");
  await box.press("Enter");
  await item.getByText(/^counts \d\d?(\.\d+)? %/).waitFor();
  const share = await until("it says how much", async () => Number(/counts (\d+(\.\d+)?) %/.exec(await item.innerText())?.[1]));
  assert.ok(share >= 10 && share < 40, `counts ${share} %`);
  await check();
});
