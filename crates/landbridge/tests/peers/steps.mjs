// Runs scenarios with a TypeScript SDK: JSON on stdin, one JSON document of everything that was seen on stdout.
//
// An SDK is a function `connect(run, seen)` that gives a client of one shape; see ts1.mjs and ts2.mjs. What happens is
// told to `seen`, in order, and belongs to the step that is running.

const PATIENCE_MS = 40_000;

/** Reads the scenario, runs all its runs side by side, prints what each one saw. */
export async function main(connect) {
    let text = '';
    for await (const chunk of process.stdin) text += chunk;
    const { runs } = JSON.parse(text);
    const seen = await Promise.all(runs.map(run => observe(connect, run)));
    process.stdout.write(JSON.stringify({ runs: seen }), () => process.exit(0));
}

async function observe(connect, run) {
    const seen = new Seen(run.answers);
    const document = { steps: [] };
    try {
        const client = await within(connect(run, seen), 'connecting');
        document.server = client.server();
        for (const step of run.steps) {
            const record = seen.begin(step);
            await within(take(client, step, seen, record), JSON.stringify(step));
            document.steps.push(seen.end());
        }
        await within(client.close(), 'closing');
    } catch (error) {
        document.failure = String(error?.stack ?? error);
    }
    return document;
}

/** What a run saw, step by step. */
class Seen {
    constructor(answers) {
        this.answers = answers;
        this.unsolicited = [];
        this.wake = () => {};
    }

    begin(step) {
        this.record = { step, asks: [], progress: [] };
        return this.record;
    }

    end() {
        const record = this.record;
        this.record = undefined;
        return record;
    }

    /**
     * Watches a connected transport for progress. The SDKs forget a call's progress as soon as they read its result, and
     * so show less when both come in one piece; what came does not depend on that.
     */
    watch(transport) {
        const inner = transport.onmessage;
        transport.onmessage = (message, extra) => {
            if (message.method === 'notifications/progress' && this.record?.step.progress) {
                const { progressToken, ...report } = message.params;
                this.record.progress.push(report);
            }
            inner(message, extra);
        };
    }

    /** Notes a question of the server and answers it as the scenario says. */
    ask(method, params) {
        const ask = { method, params: params ?? null };
        const calling = this.record && this.record.step.do !== 'await';
        (calling ? this.record.asks : this.unsolicited).push(ask);
        this.wake();
        return this.record?.step.answers?.[method] ?? this.answers[method];
    }

    /** Resolves once the server has asked this outside of any call. */
    async asked(method) {
        for (;;) {
            const found = this.unsolicited.find(ask => ask.method === method);
            if (found) return found;
            await new Promise(resolve => (this.wake = resolve));
        }
    }
}

async function take(client, step, seen, record) {
    const act = {
        list: () => client.list(step.what),
        read: () => client.read({ uri: step.uri }),
        prompt: () => client.prompt({ name: step.name, arguments: step.arguments }),
        complete: () => client.complete({ ref: step.ref, argument: step.argument }),
        call: () => client.call(step, step.progress ? { onprogress: () => {} } : {}),
        await: () => seen.asked(step.method),
        cancel: () => cancel(client, step),
        counters: () => counters(client, step.tool),
    }[step.do];
    try {
        record.result = await act();
    } catch (error) {
        record.error = { code: error.code ?? null, message: error.message, data: error.data ?? null };
    }
}

/** Calls a tool, cancels the call at its first progress, and says what that progress was. */
async function cancel(client, step) {
    const abort = new AbortController();
    let first;
    const onprogress = progress => {
        first ??= progress;
        abort.abort('enough');
    };
    try {
        const result = await client.call(step, { onprogress, signal: abort.signal });
        return { uncancelled: result };
    } catch (error) {
        if (!abort.signal.aborted) throw error;
        return { first };
    }
}

/** How often the server started, finished and stopped a tool, once it has stopped one. */
async function counters(client, tool) {
    for (;;) {
        const { structuredContent } = await client.call({ name: 'counters', arguments: {} }, {});
        if (structuredContent[tool]?.cancelled > 0) return structuredContent[tool];
        await new Promise(resolve => setTimeout(resolve, 20));
    }
}

async function within(promise, what) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no end of ${what} after ${PATIENCE_MS} ms`)), PATIENCE_MS);
    });
    return await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
