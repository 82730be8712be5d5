// A browser without a window: keeps cookies, follows redirects, and fills in the first form of each page.

const HOPS_MAX = 30;
const PAGE_MS_MAX = 20_000;

/** The value of an attribute, or undefined. */
function attribute(tag, name) {
    const value = tag.match(new RegExp(`\\s${name}="([^"]*)"`))?.[1];
    return value?.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&#39;', "'")
        .replaceAll('&amp;', '&');
}

/** The first form of a page, filled in by somebody who agrees to everything. */
function formOf(html, user) {
    const [, tag, inside] = html.match(/<form([^>]*)>([\s\S]*?)(?:<\/form>|$)/) ?? [];
    if (tag === undefined) {
        return undefined;
    }
    const fields = new URLSearchParams();
    for (const [, field] of inside.matchAll(/<(?:input|button)([^>]*)>/g)) {
        const [name, value] = [attribute(field, 'name'), attribute(field, 'value') ?? ''];
        if (name !== undefined && value !== 'deny') {
            fields.append(name, { login: user, password: 'x' }[name] ?? value);
        }
    }
    return { action: attribute(tag, 'action') ?? '', post: attribute(tag, 'method')?.toLowerCase() === 'post', fields };
}

export class Browser {
    #cookies = new Map();

    /** Opens an address and goes wherever it leads. Returns the last page: {url, status, text}. */
    async visit(address, user) {
        let [url, body] = [new URL(address), undefined];
        for (let hop = 0; hop < HOPS_MAX; hop += 1) {
            const answer = await this.#open(url, body);
            const text = await answer.text();
            body = undefined;
            const to = answer.headers.get('location');
            const form = formOf(text, user);
            if (300 <= answer.status && answer.status < 400 && to !== null) {
                url = new URL(to, url);
            } else if (form !== undefined && answer.ok) {
                url = new URL(form.action, url);
                if (form.post) {
                    body = form.fields;
                } else {
                    url.search = form.fields;
                }
            } else {
                return { url, status: answer.status, text };
            }
        }
        throw new Error(`${address} leads to too many pages`);
    }

    async #open(url, body) {
        const own = this.#cookies.get(url.host) ?? new Map();
        this.#cookies.set(url.host, own);
        const headers = { accept: 'text/html' };
        if (own.size !== 0) {
            headers.cookie = [...own].map(([name, value]) => `${name}=${value}`).join('; ');
        }
        if (body !== undefined) {
            headers.origin = url.origin;
        }
        const signal = AbortSignal.timeout(PAGE_MS_MAX);
        const method = body === undefined ? 'GET' : 'POST';
        const answer = await fetch(url, { method, headers, body, redirect: 'manual', signal });
        for (const cookie of answer.headers.getSetCookie()) {
            const [name, value] = cookie.split(';')[0].split('=', 2);
            if (value === '' || value === undefined || cookie.includes('Max-Age=0') || cookie.includes('01 Jan 1970')) {
                own.delete(name.trim());
            } else {
                own.set(name.trim(), value);
            }
        }
        return answer;
    }
}
