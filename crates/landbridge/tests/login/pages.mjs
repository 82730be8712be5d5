// The pages of a login in a real browser: one function per test. Arguments: playwright, the browser, the step, the URL of
// the gateway, a folder for pictures. CLIENTS in the environment has the ids of registered clients by name, LINKS those to
// logins at a server, with the person each is for.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [playwright, executablePath, step, gateway, pictures] = process.argv.slice(2);
const { chromium } = await import(pathToFileURL(playwright));
const clients = JSON.parse(process.env.CLIENTS);
const links = JSON.parse(process.env.LINKS);
const looks = [375, 1280].flatMap(width => ['light', 'dark'].map(colorScheme => ({ width, colorScheme })));

// The client: it waits where its person comes back to.
const came = [];
const server = createServer((request, response) => {
    if (request.url.startsWith('/cb')) came.push(new URL(request.url, 'http://127.0.0.1').searchParams);
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>client</title><h1>Back at the client</h1>');
});
await new Promise(listening => server.listen(0, '127.0.0.1', listening));
const redirect = `http://127.0.0.1:${server.address().port}/cb`;
const verifier = randomBytes(32).toString('base64url');

function start(client, over = {}) {
    const query = {
        response_type: 'code', client_id: client, redirect_uri: redirect, state: 'the client\'s', scope: 'mcp:read mcp:call',
        code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
        resource: `${gateway}/mcp`, ...over,
    };
    return `${gateway}/authorize?${new URLSearchParams(query)}`;
}

const browser = await chromium.launch({ executablePath, headless: true, args: ['--no-sandbox'] });

/** A window of somebody who has not been here before. What goes wrong in pages of ours is in `problems`. */
async function open({ width, colorScheme }, options = {}) {
    const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, locale: 'en-GB', ...options });
    // Pages of the provider would load fonts from afar.
    await context.route(to => to.hostname !== '127.0.0.1', route => route.abort());
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    const problems = [];
    const ours = address => address.startsWith(gateway);
    page.on('pageerror', error => problems.push(String(error)));
    page.on('dialog', dialog => { problems.push(dialog.message()); dialog.dismiss(); });
    page.on('console', message => {
        if (ours(page.url()) && /content security policy|refused to/i.test(message.text())) problems.push(message.text());
    });
    page.on('request', request => {
        const from = request.frame().url();
        if (!request.isNavigationRequest() && ours(from) && !ours(request.url())) problems.push(`${from} asks ${request.url()}`);
    });
    await page.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', event => console.error(`refused to ${event.violatedDirective}`));
    });
    return { context, page, problems };
}

/** What every page of ours must be, wherever it is read. */
async function readable(page, problems, name) {
    const found = await page.evaluate(() => {
        const wrong = [];
        const channels = color => color.match(/[\d.]+/g).map(Number);
        const light = color => {
            const [r, g, b] = channels(color).map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = element => {
            for (let at = element; at; at = at.parentElement) {
                const color = getComputedStyle(at).backgroundColor;
                if (channels(color)[3] !== 0) return color;
            }
            return 'rgb(255, 255, 255)';
        };
        const wide = document.documentElement.scrollWidth - innerWidth;
        if (wide > 0) wrong.push(`${wide} px too wide`);
        const strange = document.querySelectorAll('script, img, iframe, svg, style, object, embed, [style], [onclick], [onerror]');
        if (strange.length) wrong.push(`strange elements: ${strange[0].outerHTML}`);
        for (const one of ['h1', 'main', 'title', 'html[lang]', 'meta[name=viewport]']) {
            if (document.querySelectorAll(one).length !== 1) wrong.push(`not one ${one}`);
        }
        for (const element of document.body.querySelectorAll('*')) {
            const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join('').trim();
            if (!text) continue;
            const style = getComputedStyle(element), box = element.getBoundingClientRect();
            const [a, b] = [light(style.color), light(behind(element))].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(2)}: ${text}`);
            if (parseFloat(style.fontSize) < 14) wrong.push(`small: ${text}`);
            if (box.left < 0 || box.right > innerWidth || !box.width) wrong.push(`out of sight: ${text}`);
            if (element.tagName === 'BUTTON' && box.height < 44) wrong.push(`too small for a thumb: ${text}`);
        }
        return wrong;
    });
    await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
    assert.deepEqual(found, [], name);
    assert.deepEqual(problems, [], name);
}

/** From consent to the client, by clicking. */
async function click(page, user) {
    await page.getByRole('button', { name: 'Allow and log in' }).click();
    await page.locator('input[name=login]').fill(user);
    await page.locator('input[name=password]').fill('x');
    await page.locator('button[type=submit]').click();
    await page.locator('button[type=submit]').click();
    await page.waitForURL(`${redirect}**`);
    return came.pop();
}

async function redeems(code, client) {
    const form = { grant_type: 'authorization_code', client_id: client, code, code_verifier: verifier, redirect_uri: redirect };
    const answer = await fetch(`${gateway}/token`, { method: 'POST', body: new URLSearchParams(form) });
    assert.equal(answer.status, 200, await answer.text());
}

/** Whoever is at the provider says who they are, and that the gateway may know. */
async function atProvider(page, user, until) {
    await page.locator('input[name=login]').fill(user);
    await page.locator('input[name=password]').fill('x');
    await page.locator('button[type=submit]').click();
    await page.locator('button[type=submit]').click();
    await page.waitForURL(until);
}

/** What a page of ours says, after a look at it. */
async function seen(page, problems, name, look) {
    await readable(page, problems, `${name}-${look.width}-${look.colorScheme}`);
    return page.locator('main').innerText();
}

/** The status of the next page of ours at this path. */
function statusAt(page, path) {
    const ours = response => response.url().startsWith(`${gateway}${path}`) && response.status() !== 303;
    return page.waitForResponse(ours).then(response => response.status());
}

const steps = {
    async flow() {
        for (const look of looks) {
            const { context, page, problems } = await open(look);
            const response = await page.goto(start(clients.plain));
            assert.equal(response.status(), 200);
            assert.equal(new URL(page.url()).pathname, '/consent');
            const text = await page.locator('main').innerText();
            for (const part of ['Test wants to use', '127.0.0.1', 'unverified', 'call the tools of every server for you']) {
                assert.ok(text.includes(part), `${part}: ${text}`);
            }
            await readable(page, problems, `consent-${look.width}-${look.colorScheme}`);
            // With the keyboard alone: no comes first, and what has the focus can be seen.
            await page.keyboard.press('Tab');
            const focus = await page.evaluate(() => [document.activeElement.value, getComputedStyle(document.activeElement).outlineStyle]);
            assert.deepEqual(focus, ['deny', 'solid']);
            const got = await click(page, 'alice');
            assert.equal(got.get('state'), 'the client\'s');
            assert.equal(got.get('iss'), gateway);
            await redeems(got.get('code'), clients.plain);
            assert.deepEqual(problems, []);
            // Consent is asked for again: nothing is remembered, though the provider knows them now.
            await page.goto(start(clients.plain));
            assert.equal(new URL(page.url()).pathname, '/consent');
            await page.goBack();
            await context.close();
        }
    },

    async deny() {
        for (const look of looks) {
            const { context, page, problems } = await open(look);
            await page.goto(start(clients.hostile));
            const title = await page.locator('h1').innerText();
            assert.ok(title.startsWith('<img src=x onerror=alert(1)> Cl[U+0430]ude'), title);
            await readable(page, problems, `hostile-${look.width}-${look.colorScheme}`);
            await page.getByRole('button', { name: 'Cancel' }).click();
            await page.waitForURL(`${redirect}**`);
            const got = came.pop();
            assert.deepEqual([got.get('error'), got.get('state'), got.get('iss'), got.get('code')], ['access_denied', 'the client\'s', gateway, null]);
            assert.deepEqual(problems, []);
            // The way back leads to a form that is over.
            const asked = await page.goBack();
            if (asked?.status() === 400) await readable(page, [], `over-${look.width}-${look.colorScheme}`);
            await context.close();
        }
    },

    // Whoever allows no scripts loses nothing.
    async scriptless() {
        const { context, page } = await open(looks[0], { javaScriptEnabled: false });
        await page.goto(start(clients.plain));
        const got = await click(page, 'bob');
        await redeems(got.get('code'), clients.plain);
        await context.close();
    },

    // Forms of other pages, as a browser sends them and as a program would.
    async foreign() {
        const { context, page } = await open(looks[1]);
        await page.goto(start(clients.plain));
        const form = await page.$$eval('input[type=hidden]', all => Object.fromEntries(all.map(one => [one.name, one.value])));
        const filled = { ...form, decision: 'approve' };
        const ask = headers => context.request.post(`${gateway}/consent`, { form: filled, headers, maxRedirects: 0 });
        for (const origin of ['null', 'https://evil.example', 'http://127.0.0.1:1']) {
            const answer = await ask({ origin });
            assert.equal(answer.status(), 403, origin);
            assert.equal(answer.headers().location, undefined);
        }
        const other = await context.newPage();
        const fields = Object.entries(filled).map(([name, value]) => `<input name="${name}" value="${value}">`).join('');
        const sent = other.waitForResponse(response => response.request().method() === 'POST');
        await other.setContent(`<form method="post" action="${gateway}/consent">${fields}<button>Win a prize</button></form>`);
        await other.locator('button').click();
        const refused = await sent;
        assert.equal((await refused.request().allHeaders()).origin, 'null', 'a page without an address says so');
        assert.equal(refused.status(), 403);
        // The page itself still works, and says where it comes from.
        const own = page.waitForRequest(request => request.method() === 'POST');
        const got = click(page, 'alice');
        assert.equal((await (await own).allHeaders()).origin, gateway);
        assert.ok((await got).get('code'));
        // Without an Origin the mark of the form is enough, and it is not there any more.
        assert.equal((await ask({})).status(), 400);
        // No other page can show ours within itself.
        await other.goto(redirect);
        await other.setContent(`<iframe src="${start(clients.plain)}"></iframe>`);
        const frame = await (await other.waitForSelector('iframe')).contentFrame();
        await frame.waitForURL(at => at.href.startsWith('chrome-error:'));
        await context.close();
    },

    // The provider is not there.
    async away() {
        for (const look of looks) {
            const { context, page, problems } = await open(look);
            await page.goto(start(clients.plain));
            const status = statusAt(page, '/consent');
            await page.getByRole('button', { name: 'Allow and log in' }).click();
            assert.equal(await status, 503);
            const text = await seen(page, problems, 'away', look);
            assert.match(text, /The provider of the login cannot be reached/);
            assert.match(text, /try again/i, 'it says what to do');
            await context.close();
        }
    },

    // Logins at a server behind the gateway: done, said no to, another's, and over.
    async behind() {
        for (const [number, look] of [looks[1], looks[2]].entries()) {
            const { context, page, problems } = await open(look);
            const [user, link] = links.done[number];
            await page.goto(link);
            const back = statusAt(page, '/oauth/backend/callback');
            await atProvider(page, user, /\/interaction\//);
            // The provider of the server asks as well.
            await page.locator('button[type=submit]').click();
            assert.equal(await back, 200);
            assert.match(await seen(page, problems, 'behind-done', look), /You are logged in at team/);
            assert.equal((await page.reload()).status(), 400, 'it is used once');
            assert.match(await seen(page, problems, 'behind-over', look), /Start again/);
            await context.close();
        }
        for (const [number, look] of [looks[1], looks[2]].entries()) {
            const { context, page, problems } = await open(look);
            const [user, link] = links.refused[number];
            await page.goto(link);
            await atProvider(page, user, /\/interaction\//);
            const back = statusAt(page, '/oauth/backend/callback');
            await page.getByText('Cancel').click();
            assert.equal(await back, 400);
            assert.match(await seen(page, problems, 'behind-refused', look), /it was denied/);
            await context.close();
        }
        for (const look of [looks[1], looks[2]]) {
            const { context, page, problems } = await open(look);
            const [, link] = links.foreign;
            await page.goto(link);
            const begun = statusAt(page, '/oauth/backend/start');
            await atProvider(page, 'mallory', to => to.href.startsWith(gateway));
            assert.equal(await begun, 403);
            assert.match(await seen(page, problems, 'behind-foreign', look), /Only who began it can finish it/);
            assert.equal((await page.goto(`${gateway}/oauth/backend/start?id=${'A'.repeat(43)}`)).status(), 400);
            assert.match(await seen(page, problems, 'behind-unknown', look), /Start again/);
            await context.close();
        }
    },

    // Pages of operators, to those who are none, and after a logout.
    async operators() {
        for (const look of [looks[1], looks[2]]) {
            const { context, page, problems } = await open(look);
            await page.goto(`${gateway}/waterfall`);
            const status = statusAt(page, '/oauth/callback');
            await atProvider(page, 'alice', to => to.href.startsWith(gateway));
            assert.equal(await status, 403);
            assert.match(await seen(page, problems, 'operator-none', look), /administrator/);
            await context.close();
        }
        for (const look of [looks[0], looks[3]]) {
            const { context, page, problems } = await open(look);
            await page.goto(`${gateway}/sessions`);
            await atProvider(page, 'carol', `${gateway}/sessions`);
            const out = await page.goto(`${gateway}/logout`);
            assert.equal(out.status(), 200);
            assert.match(await seen(page, problems, 'operator-out', look), /logged out/i);
            // Whoever opens a page again is sent to the provider again, which may know them still.
            const asked = page.waitForRequest(request => !request.url().startsWith(gateway));
            await page.goto(`${gateway}/sessions`);
            await asked;
            await context.close();
        }
    },

    async errors() {
        const unknown = 'mcp_00000000000000000000000000000000';
        const pages = {
            unknown: [400, start(unknown)],
            elsewhere: [400, start(clients.plain, { redirect_uri: 'https://evil.example/cb' })],
            over: [400, `${gateway}/consent?id=${'A'.repeat(43)}`],
            browser: [400, `${gateway}/oauth/callback?state=x&code=y`],
        };
        for (const look of looks) {
            const { context, page, problems } = await open(look);
            for (const [name, [status, address]] of Object.entries(pages)) {
                const response = await page.goto(address);
                assert.equal(response.status(), status, name);
                assert.equal(page.url(), address, 'nobody is sent anywhere');
                const text = await page.locator('main').innerText();
                assert.ok(/start|register/i.test(text) || name === 'elsewhere', `it says what to do: ${text}`);
                await readable(page, problems, `${name}-${look.width}-${look.colorScheme}`);
            }
            await context.close();
        }
        const { page, problems } = await open(looks[0]);
        for (let times = 0; times < 40; times += 1) await fetch(start(unknown));
        assert.equal((await page.goto(start(unknown))).status(), 429);
        await readable(page, problems, 'often');
    },
};

try {
    await steps[step]();
} finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
}
