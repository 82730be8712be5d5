// The client of `cargo xtask conformance --path client-auth`: a person with a browser, and landbridge as the OAuth client.
//
// The suite starts it with the server's URL as last argument. It serves that server with `"auth": "user"` through
// `landbridge stdio`, lists its tools and calls them, and logs in wherever landbridge says that a login is needed.
//
// usage: node client-auth.mjs LANDBRIDGE FOLDER URL

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Browser } from './browser.mjs';

const [landbridge, folder, url] = process.argv.slice(-3);
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const LOGINS_MAX = 4;

const home = path.join(folder, String(process.pid));
mkdirSync(home, { recursive: true, mode: 0o700 });
const config = path.join(home, 'mcp.json');
const auth = { type: 'user' };
if (context.client_id !== undefined) {
    auth.client_id = context.client_id;
}
if (context.client_secret !== undefined) {
    auth.client_secret = context.client_secret;
}
if (process.env.MCP_CONFORMANCE_SCENARIO === 'auth/basic-cimd') {
    auth.client_id_metadata_url = 'https://conformance-test.local/client-metadata.json';
}
writeFileSync(config, JSON.stringify({ mcpServers: { suite: { url, auth } } }), { mode: 0o600 });

const env = { ...process.env, XDG_STATE_HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home };
const child = spawn(landbridge, ['stdio', '--config', config, '--server', 'suite'], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
});
const waiting = new Map();
let last = 0;
createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
});
child.on('exit', () => waiting.forEach((settle) => settle({ error: { message: 'landbridge ended' } })));

function ask(method, params) {
    last += 1;
    const id = last;
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return new Promise((settle) => waiting.set(id, settle));
}

/** Asks, and logs in and asks again wherever that is wanted. */
async function insist(method, params) {
    for (let logins = 0; ; logins += 1) {
        const { result, error } = await ask(method, params);
        if (error === undefined) {
            return result;
        }
        const told = JSON.stringify(error);
        const link = told.match(/https?:\/\/[^\s"\\]+[?&]response_type=code[^\s"\\]*/)?.[0];
        if (link === undefined || logins === LOGINS_MAX) {
            throw new Error(`${method}: ${told}`);
        }
        const { status, text } = await new Browser().visit(link, 'alice');
        if (status >= 400) {
            throw new Error(`the login ends with ${status}: ${text.replace(/<[^>]*>/g, ' ')}`);
        }
    }
}

try {
    await insist('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: { elicitation: { url: {} } },
        clientInfo: { name: 'landbridge-conformance-driver', version: '1.0.0' },
    });
    child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    const { tools } = await insist('tools/list', {});
    for (const { name } of tools) {
        await insist('tools/call', { name, arguments: {} });
    }
} catch (error) {
    console.error(String(error));
    process.exitCode = 1;
} finally {
    child.stdin.end();
    setTimeout(() => child.kill(), 3000).unref();
}
