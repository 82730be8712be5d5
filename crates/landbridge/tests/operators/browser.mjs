// An operator in a real browser: from a link to the waterfall, through the login at a provider that is another site.
// usage: node browser.mjs PLAYWRIGHT BROWSER URL
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';

const [playwright, executablePath, url] = process.argv.slice(2);
const { chromium } = await import(pathToFileURL(playwright));
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
try {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(40_000);
    await page.goto(`${url}/waterfall`);
    assert.notEqual(new URL(page.url()).origin, new URL(url).origin, 'the provider asks who it is');
    await page.fill('input[name=login]', 'carol');
    await page.fill('input[name=password]', 'x');
    await page.click('button[type=submit]');
    // The provider asks once more whether the gateway may know.
    await page.waitForURL((at) => at.pathname.includes('/interaction/') || at.pathname === '/waterfall');
    if (new URL(page.url()).pathname !== '/waterfall') {
        await page.click('button[type=submit]');
    }
    await page.waitForURL(`${url}/waterfall`);
    assert.match(await page.content(), /waterfall/i);
    const cookie = (await context.cookies(url)).find(({ name }) => name === 'lb_ui');
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
    const read = await page.evaluate(() => fetch('/waterfall/json').then((answer) => answer.status));
    assert.equal(read, 200, 'the page reads its rows with the cookie');
    const added = await page.evaluate(() =>
        fetch('/servers', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ name: 'evil', url: 'https://8.8.8.8/mcp' }),
        }).then((answer) => answer.status, () => 'kept from asking'));
    assert.notEqual(added, 201, 'no script of ours adds servers');
    assert.equal((await page.goto(`${url}/sessions`)).status(), 200, 'it is logged in');
    assert.equal(page.url(), `${url}/sessions`);
    await page.goto(`${url}/logout`);
    assert.equal((await context.cookies(url)).find(({ name }) => name === 'lb_ui'), undefined, 'the cookie is gone');
    const read_again = await page.evaluate(() => fetch('/waterfall/json').then((answer) => answer.status, () => 'kept'));
    assert.notEqual(read_again, 200, 'no page reads rows any more');
    // Whoever opens a page is sent to the provider again, which is another site and knows them still.
    const to_provider = page.waitForRequest((asked) => new URL(asked.url()).origin !== new URL(url).origin);
    await page.goto(`${url}/sessions`);
    await to_provider;
} finally {
    await browser.close();
}
