// The person of `cargo xtask conformance --path authorization`: runs the suite, waits for the link that it prints, and logs
// in there.
//
// usage: node authorization.mjs SUITE ARGUMENT... The exit code is the suite's.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Browser } from './browser.mjs';

const suite = spawn(process.execPath, process.argv.slice(2), { stdio: ['ignore', 'pipe', 'inherit'] });
const ended = new Promise((end) => suite.on('exit', (code) => end(code ?? 1)));
for await (const line of createInterface({ input: suite.stdout })) {
    console.log(line);
    if (/^https?:\/\/\S+\/authorize\?/.test(line)) {
        new Browser().visit(line, 'alice').then(
            ({ url, status }) => console.log(`the browser stopped at ${url.origin}${url.pathname} with ${status}`),
            // Without a login the suite would wait for five minutes.
            (error) => {
                console.error(error);
                suite.kill();
            },
        );
    }
}
process.exitCode = await ended;
