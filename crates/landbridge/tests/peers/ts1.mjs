// TypeScript SDK 1.x. First argument: the folder it is installed in.

import { createRequire } from 'node:module';
import { main } from './steps.mjs';

const require = createRequire(`${process.argv[2]}/`);
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');

const ASKS = {
    'elicitation/create': types.ElicitRequestSchema,
    'sampling/createMessage': types.CreateMessageRequestSchema,
    'roots/list': types.ListRootsRequestSchema,
};

await main(async (run, seen) => {
    const client = new Client({ name: 'ts1', version: '1' }, { capabilities: run.capabilities });
    if (Object.keys(run.capabilities).length) {
        for (const [method, schema] of Object.entries(ASKS)) {
            client.setRequestHandler(schema, request => seen.ask(method, request.params));
        }
    }
    const transport = run.server.url
        ? new StreamableHTTPClientTransport(new URL(run.server.url))
        : new StdioClientTransport({ ...run.server, stderr: 'inherit' });
    // The client tells its transport what was negotiated, and nobody else.
    let revision = null;
    const told = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = version => {
        revision = version;
        told?.(version);
    };
    await client.connect(transport);
    seen.watch(transport);
    const lists = {
        tools: () => client.listTools(),
        prompts: () => client.listPrompts(),
        resources: () => client.listResources(),
        templates: () => client.listResourceTemplates(),
    };
    return {
        server: () => ({
            revision,
            info: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
            instructions: client.getInstructions() ?? null,
        }),
        list: what => lists[what](),
        call: (step, options) => client.callTool({ name: step.name, arguments: step.arguments }, undefined, options),
        read: params => client.readResource(params),
        prompt: params => client.getPrompt(params),
        complete: params => client.complete(params),
        close: async () => {
            if (run.server.url) await transport.terminateSession();
            await client.close();
        },
    };
});
