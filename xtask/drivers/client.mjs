// The client of `cargo xtask conformance --path client`: does what each scenario of the suite wants from a client, on the
// official TypeScript SDKs, the 1.x line in the legacy era and the 2.x line in the modern one.
//
// The suite starts it with the server's URL as last argument and names the scenario, the revision and, for some, what to
// call in the environment. $LANDBRIDGE_PEERS is the folder in which the SDKs are installed.

import { createRequire } from 'node:module';
import path from 'node:path';

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const revision = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');

const clientInfo = { name: 'landbridge-conformance-driver', version: '1.0.0' };

/** A value for every argument that a tool requires. */
function argumentsFor(tool) {
    const byType = { string: 'x', integer: 1, number: 1.5, boolean: true, array: [], object: {}, null: null };
    const properties = Object.entries(tool.inputSchema.properties ?? {});
    return Object.fromEntries(properties.map(([name, schema]) => [name, byType[schema.type] ?? 'x']));
}

/** Calls a tool and insists on a good answer: the suite sees only what reaches it, not what comes back. */
async function call(client, params) {
    const result = await client.callTool(params);
    if (result.isError || result.content.length === 0) {
        throw new Error(`${params.name} answers ${JSON.stringify(result)}`);
    }
}

async function callEveryTool(client) {
    const { tools } = await client.listTools();
    for (const tool of tools) {
        await call(client, { name: tool.name, arguments: argumentsFor(tool) });
    }
}

async function echoSchema(client) {
    const { tools } = await client.listTools();
    const { inputSchema } = tools.find((tool) => tool.name === 'json_schema_2020_12_tool');
    await call(client, { name: 'json_schema_echo', arguments: { schema: inputSchema } });
}

async function callWithInput(client) {
    await client.listTools();
    const ask = (name) => call(client, { name, arguments: {} });
    // The unrelated call is on its way while the first one is being asked: neither may carry the other's state.
    await Promise.all([ask('test_mrtr_echo_state'), ask('test_mrtr_unrelated')]);
    await ask('test_mrtr_no_state');
    // The SDK refuses a modern result without `resultType`; what counts is that it does not answer with input.
    await ask('test_mrtr_no_result_type').catch((error) => console.error(`refused: ${error.message}`));
}

async function useEverything(client) {
    await callEveryTool(client);
    for (const { uri } of (await client.listResources()).resources) {
        await client.readResource({ uri });
    }
    for (const { name } of (await client.listPrompts()).prompts) {
        await client.getPrompt({ name });
    }
}

async function callAsTold(client) {
    await client.listTools();
    for (const params of context.toolCalls) {
        await call(client, params);
    }
}

const scenarios = {
    initialize: (client) => client.listTools(),
    tools_call: callEveryTool,
    'elicitation-sep1034-client-defaults': callEveryTool,
    'sse-retry': callEveryTool,
    // The server declares no tools, so `listTools` would not ask it.
    'request-metadata': (client) => client.request({ method: 'tools/list' }),
    'sep-2322-client-request-state': callWithInput,
    'http-standard-headers': useEverything,
    'http-custom-headers': callAsTold,
    'http-invalid-tool-headers': callEveryTool,
    'json-schema-ref-no-deref': (client) => client.listTools(),
    'json-schema-2020-12-preservation': echoSchema,
};

/** The SDK's client of the era, not connected yet. */
function open() {
    const peer = (key) => createRequire(path.join(process.env.LANDBRIDGE_PEERS, key, 'package.json'));
    if (revision === '2026-07-28') {
        const { Client, StreamableHTTPClientTransport } = peer('typescript-v2')('@modelcontextprotocol/client');
        const capabilities = { elicitation: {}, sampling: {}, roots: {} };
        const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: { pin: revision } } });
        client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { confirmed: true } }));
        return [client, new StreamableHTTPClientTransport(new URL(url))];
    }
    const sdk = peer('typescript-v1');
    const { Client } = sdk('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = sdk('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { ElicitRequestSchema } = sdk('@modelcontextprotocol/sdk/types.js');
    const client = new Client(clientInfo, { capabilities: { elicitation: { form: { applyDefaults: true } } } });
    // Nothing is filled in here, so every value that the server gets is a default of its schema.
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: {} }));
    return [client, new StreamableHTTPClientTransport(new URL(url))];
}

// A client that waits for ever must not outlive the suite, which kills only the shell that it started.
setTimeout(() => process.exit(1), 20_000).unref();

const [client, transport] = open();
await client.connect(transport);
await scenarios[scenario](client);
await client.close();
