// TypeScript SDK 2.x, in the era the scenario names. First argument: the folder it is installed in.

import { createRequire } from 'node:module';
import { main } from './steps.mjs';

const require = createRequire(`${process.argv[2]}/`);
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

await main(async (run, seen) => {
    const mode = run.era === 'modern' ? 'auto' : 'legacy';
    const client = new Client(
        { name: 'ts2', version: '1' },
        { capabilities: run.capabilities, versionNegotiation: { mode } },
    );
    if (Object.keys(run.capabilities).length) {
        for (const method of ['elicitation/create', 'sampling/createMessage', 'roots/list']) {
            client.setRequestHandler(method, request => seen.ask(method, request.params));
        }
    }
    const transport = run.server.url
        ? new StreamableHTTPClientTransport(new URL(run.server.url))
        : new StdioClientTransport({ ...run.server, stderr: 'inherit' });
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
            revision: client.getNegotiatedProtocolVersion(),
            info: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
            instructions: client.getInstructions() ?? null,
        }),
        list: what => lists[what](),
        call: (step, options) => client.callTool({ name: step.name, arguments: step.arguments }, options),
        read: params => client.readResource(params),
        prompt: params => client.getPrompt(params),
        complete: params => client.complete(params),
        close: async () => {
            if (run.server.url && run.era === 'legacy') await transport.terminateSession();
            await client.close();
        },
    };
});
