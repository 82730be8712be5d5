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
    await page.goto(`${url}/logout`);
    await page.goto(`${url}/sessions`);
    assert.notEqual(new URL(page.url()).pathname, '/oauth/stats');
    console.log(`after the logout the browser was at ${page.url()}`);
} finally {
    await browser.close();
}
