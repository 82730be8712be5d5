// TypeScript SDKs from a bare 401 to a call and a refresh. Arguments: 1 or 2, the folder the SDK is installed in, the URL,
// and where there is one the address of the client's document.
//
// Says where a browser must go as one line of JSON, reads where it came out, and says what a call answered. With MORE in the
// environment (a call as JSON), it makes a call that its token may not, follows the challenge, and makes it once more.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [, , version, folder, url, document] = process.argv;
const require = createRequire(`${folder}/`);
const sdk =
    version === '1'
        ? {
              ...require('@modelcontextprotocol/sdk/client/index.js'),
              ...require('@modelcontextprotocol/sdk/client/streamableHttp.js'),
          }
        : require('@modelcontextprotocol/client');

const say = what => console.log(JSON.stringify(what));
const redirect = 'http://127.0.0.1:4711/cb';
const kept = {};
const authProvider = {
    redirectUrl: redirect,
    ...(document ? { clientMetadataUrl: document } : {}),
    clientMetadata: {
        client_name: `TypeScript ${version}`,
        redirect_uris: [redirect],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
    },
    clientInformation: () => kept.client,
    saveClientInformation: client => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: tokens => void (kept.tokens = tokens),
    redirectToAuthorization: to => say({ authorize: String(to) }),
    saveCodeVerifier: verifier => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: state => void (kept.discovery = state),
    discoveryState: () => kept.discovery,
};
const connect = async () => {
    const client = new sdk.Client({ name: 'sdk', version: '1' });
    const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { authProvider });
    return { client, transport, connected: client.connect(transport) };
};

const first = await connect();
let refused = null;
await first.connected.catch(error => (refused = error));
if (!refused) throw new Error('it got in without a token');
const lines = createInterface({ input: process.stdin });
const read = lines[Symbol.asyncIterator]();
const finish = async transport => {
    const { value: line } = await read.next();
    const came = new URL(line).searchParams;
    await transport.finishAuth(version === '1' ? came.get('code') : came);
};
await finish(first.transport);

const second = await connect();
await second.connected;
const tools = await second.client.listTools();
const answer = await second.client.callTool({ name: 'list_servers', arguments: {} });
// A token that is no good any more is refreshed on the way, without anybody.
kept.tokens = { ...kept.tokens, access_token: 'spent' };
await second.client.callTool({ name: 'list_servers', arguments: {} });
say({ tools: tools.tools.length, answer, refreshed: kept.tokens.access_token !== 'spent' });
if (process.env.MORE) {
    const call = JSON.parse(process.env.MORE);
    const before = kept.tokens.scope;
    const lacking = await second.client.callTool(call).then(
        () => null,
        error => error.constructor.name,
    );
    if (!lacking) throw new Error('it needed no more');
    await finish(second.transport);
    const answer = await second.client.callTool(call);
    const listed = await second.client.callTool({ name: 'list_servers', arguments: {} });
    say({ before, lacking, after: kept.tokens.scope, answer, listed });
}
await second.client.close();
process.exit(0);
