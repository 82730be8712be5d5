// Loaded before an HTTP server that only knows fixed ports on all interfaces: makes it listen on a free port of
// loopback, and says on stderr which one it got.

import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (_port, ...rest) {
    this.once('listening', () => console.error(`listening on http://127.0.0.1:${this.address().port}/mcp`));
    return listen.call(this, 0, '127.0.0.1', ...rest.filter(argument => typeof argument === 'function'));
};
