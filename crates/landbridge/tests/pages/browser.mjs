// What is done in the browser: one function per test. Asks the test for rows by lines on stdout.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [playwright, executablePath, step, url, pictures] = process.argv.slice(2);
const { chromium } = await import(pathToFileURL(playwright));
const expected = JSON.parse(process.env.EXPECTED);
const tell = (line) => process.stdout.write(`${line}\n`);

const browser = await chromium.launch({ executablePath, headless: true, args: ["--no-sandbox", "--force-prefers-reduced-motion"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC" });
const page = await context.newPage();
page.setDefaultTimeout(20_000);
const dialogs = [];
const problems = [];
const asked = [];
page.on("dialog", (dialog) => { dialogs.push(dialog.message()); dialog.dismiss(); });
page.on("pageerror", (error) => problems.push(String(error)));
page.on("console", (message) => { if (message.type() === "error") problems.push(message.text()); });
page.on("request", (request) => asked.push(request.url()));
await page.addInitScript(() => {
  window.__violations = [];
  document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
});

async function open() {
  const response = await page.goto(url);
  assert.equal(response.status(), 200);
  await page.waitForSelector('#live[data-state="live"]');
}

const names = () => page.$$eval(".name", (all) => all.map((one) => one.textContent));
const count = (selector) => page.locator(selector).count();

async function nothingRan() {
  assert.deepEqual(dialogs, []);
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
  assert.deepEqual(await page.evaluate(() => window.__violations), []);
  assert.deepEqual(problems, []);
  const origin = new URL(url).origin;
  assert.deepEqual(asked.filter((one) => new URL(one).origin !== origin), [], "asked for something elsewhere");
  const strange = "main :is(script, img, iframe, svg, style, link, object, form, input, math, template, details, meta, base), main [onerror], main [onload]";
  assert.equal(await count(strange), 0, "a text became an element");
}

async function openAll() {
  for (const row of await page.locator(".row").all()) await row.click();
}

const steps = {
  async hostile() {
    await open();
    assert.deepEqual((await names()).sort(), [...expected].sort(), "names are shown as they are");
    for (const select of ["#by-session", "#by-server"]) assert.ok(await count(`${select} option`) > 8, select);
    await openAll();
    assert.equal(await count(".detail"), expected.length);
    const texts = await page.$$eval(".detail .text", (all) => all.map((one) => one.textContent));
    assert.ok(texts.some((text) => text.includes("<img src=x onerror=alert(1)>")));
    assert.ok(await page.locator(".name", { hasText: "</script><script>alert(1)</script>" }).first().isVisible());
    for (const value of await page.$$eval("#by-server option", (all) => all.map((one) => one.value))) {
      await page.selectOption("#by-server", { value });
    }
    await page.selectOption("#by-server", "");
    await nothingRan();
    await page.screenshot({ path: `${pictures}/hostile.png` });
    // The net below: even a page that tried could not run a text.
    const refused = await page.evaluate(() => {
      try {
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.__pwned=1'>");
        return "taken";
      } catch (error) {
        return error.name;
      }
    });
    assert.equal(refused, "TypeError");
    assert.equal(await page.evaluate(() => window.__pwned), undefined);
  },

  // Whatever stands where the gateway is: no answer of it runs, and none ends the page.
  async forged() {
    const bad = "\"><img src=x onerror=window.__pwned=1><script>alert(1)</script>";
    const long = bad.repeat(160);
    let body = "";
    await page.route("**/waterfall/json", (route) => route.fulfill({ contentType: "application/json", body }));
    const request = (over) => ({ requestId: bad, sessionId: bad, type: bad, name: bad, server: bad, args: bad, status: bad, startedAt: bad, endedAt: bad, durationMs: 3, error: bad, resultSummary: bad, ...over });
    const requests = [
      request({}), request({ requestId: "2", name: long, server: long, args: long, error: long, status: "failed", startedAt: "2026-01-01T00:00:00Z" }),
      request({ requestId: "3", type: "tool_call", status: "completed", durationMs: 1e300, startedAt: "9999-01-01T00:00:00Z" }),
    ];
    const sessions = `{${[bad, long, "__proto__", "constructor"].map((id) => `${JSON.stringify(id)}:${JSON.stringify(requests)}`)}}`;
    body = `{"stats":{"totalRequests":${JSON.stringify(bad)},"sessionCount":1,"byStatus":{},"byType":{}},"sessions":${sessions},"generatedAt":${JSON.stringify(bad)}}`;
    await open();
    assert.equal(await count(".row"), 12);
    await openAll();
    assert.ok((await names()).includes(long));
    await nothingRan();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `long texts make the page ${overflow} px too wide`);
    body = "<script>alert(1)</script>";
    await page.waitForSelector('#live[data-state="lost"]');
    assert.equal(await count(".row"), 12, "what was shown stays");
    await nothingRan();
  },

  async live() {
    await page.clock.install();
    await open();
    await page.evaluate(() => { window.__mark = "same page"; });
    const row = page.locator(".item", { hasText: "arrives-later" });
    const soon = async (what) => {
      for (let round = 0; round < 50 && !(await what()); round += 1) {
        const answered = page.waitForResponse("**/waterfall/json");
        await page.clock.runFor(2000);
        await answered;
        await page.evaluate(() => 0);
      }
      assert.ok(await what(), String(what));
    };
    assert.equal(await row.count(), 0);
    tell("begin arrives-later");
    await soon(async () => await row.count() === 1);
    assert.equal(await row.locator(".took").textContent(), "...");
    await row.locator(".row").click();
    tell("end");
    await soon(async () => (await row.locator(".took").textContent()) !== "...");
    assert.ok(await row.locator(".detail").isVisible(), "what is open stays open");
    assert.match(await row.locator(".detail").textContent(), /1 text block/);
    tell("begin fails-later");
    tell("fail out of paper");
    await soon(async () => await page.locator(".item", { hasText: "fails-later" }).locator(".took.failed").count() === 1);

    const quiet = async (why) => {
      const before = asked.length;
      await page.clock.runFor(60_000);
      assert.equal(asked.length, before, `asked while ${why}`);
      assert.equal(await page.textContent("#live-text"), "Paused");
    };
    await page.click("#live");
    await quiet("paused");
    await page.click("#live");
    await page.waitForSelector('#live[data-state="live"]');
    const hide = (hidden) => page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await hide(true);
    await quiet("hidden");
    const back = page.waitForResponse("**/waterfall/json");
    await hide(false);
    await back;
    await page.waitForSelector('#live[data-state="live"]');

    assert.deepEqual(problems, []);
    await page.route("**/waterfall/json", (route) => route.abort());
    await page.clock.runFor(2000);
    await page.waitForSelector('#live[data-state="lost"]');
    assert.ok(await page.isVisible("#trouble"));
    await page.unroute("**/waterfall/json");
    await page.clock.runFor(2000);
    await page.waitForSelector('#live[data-state="live"]');
    assert.ok(!(await page.isVisible("#trouble")));
    assert.equal(await page.evaluate(() => window.__mark), "same page");
  },

  async use() {
    await open();
    const all = await count(".row");
    assert.equal(all, expected.length);
    assert.equal(await page.textContent('[data-count="totalRequests"]'), String(all));
    assert.equal(await page.textContent('[data-count="failed"]'), "2");
    assert.deepEqual(await page.$$eval(".panel .id", (ids) => ids.map((id) => id.textContent)), ["0a1b2c3d4e5f", "9f8e7d6c5b4a"], "latest activity first");
    const badges = new Set(await page.$$eval(".badge", (found) => found.map((badge) => badge.textContent)));
    assert.deepEqual([...badges].sort(), ["B:PROMPT", "B:RES", "B:TOOL", "CODEMODE_EXECUTE", "CODEMODE_SEARCH", "PROMPT", "RES", "TOOL"]);
    const widths = await page.$$eval(".fill", (fills) => fills.map((fill) => [parseFloat(fill.style.left), parseFloat(fill.style.width)]));
    assert.ok(widths.every(([left, width]) => left >= 0 && width >= 0.5 && left + width <= 100.01), JSON.stringify(widths));

    for (const [select, value, want] of [["#by-session", "9f8e7d6c5b4a", 5], ["#by-server", "web", 2], ["#by-status", "failed", 2], ["#by-status", "timeout", 1], ["#by-status", "pending", 1]]) {
      await page.selectOption(select, value);
      assert.equal(await count(".row"), want, `${select} ${value}`);
      await page.click("#reset");
      assert.equal(await count(".row"), all);
    }
    await page.selectOption("#by-server", "github");
    await page.selectOption("#by-status", "pending");
    assert.equal(await count(".row"), 0);
    assert.ok(await page.isVisible("#none"));
    await page.click("#reset");
    assert.ok(!(await page.isVisible("#none")));

    const failed = page.locator(".item", { hasText: "create_pull_request" });
    await failed.locator(".row").focus();
    await page.keyboard.press("Enter");
    assert.equal(await failed.locator(".row").getAttribute("aria-expanded"), "true");
    const told = await failed.locator(".detail").textContent();
    for (const part of ["the branch has no commits of its own", "github", '"api_key":"***"', "backend_tool"]) assert.ok(told.includes(part), `${part} in ${told}`);
    await page.waitForResponse("**/waterfall/json");
    await page.waitForResponse("**/waterfall/json");
    assert.ok(await failed.locator(".detail").isVisible(), "stays open over an update");
    assert.ok(await failed.locator(".row").evaluate((row) => row === document.activeElement), "keeps the focus");
    await page.keyboard.press("Space");
    assert.equal(await failed.locator(".detail").count(), 0);
    await page.keyboard.press("Shift+Tab");
    assert.ok(await page.evaluate(() => document.activeElement.classList.contains("row")), "rows are in the order of Tab");
    await nothingRan();
  },

  async thousand() {
    await open();
    assert.equal(await count(".row"), 1000);
    const times = await page.evaluate(() => [0, 1, 2].map(() => {
      const from = performance.now();
      render();
      document.body.getBoundingClientRect();
      return Math.round(performance.now() - from);
    }));
    tell(`an update of 1,000 rows took ${times.join(", ")} ms`);
    assert.ok(Math.min(...times) < 500, `updates took ${times} ms`);
    await page.screenshot({ path: `${pictures}/thousand.png` });
    await nothingRan();
  },

  async looks() {
    await open();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const [width, height] of [[390, 844], [1280, 800], [360, 740]]) {
        await page.setViewportSize({ width, height });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${overflow} px too wide at ${width}`);
        await page.screenshot({ path: `${pictures}/${colorScheme}-${width}x${height}.png` });
      }
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.locator(".item", { hasText: "create_pull_request" }).locator(".row").click();
      await page.screenshot({ path: `${pictures}/${colorScheme}-details.png`, fullPage: true });
      await page.setViewportSize({ width: 390, height: 844 });
      await page.screenshot({ path: `${pictures}/${colorScheme}-details-small.png`, fullPage: true });
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.locator(".item", { hasText: "create_pull_request" }).locator(".row").click();
    }
    await nothingRan();
  },

  async empty() {
    await open();
    assert.ok(await page.isVisible("#empty"));
    assert.match(await page.textContent("#empty"), /Connect an MCP client/);
    assert.equal(await page.getAttribute("#home", "href"), "/");
    await page.screenshot({ path: `${pictures}/empty.png` });
    tell("begin first");
    await page.waitForSelector(".row");
    assert.ok(!(await page.isVisible("#empty")));
    await nothingRan();
  },
};

try {
  await steps[step]();
} finally {
  await browser.close();
}
