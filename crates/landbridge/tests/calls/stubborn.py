"""A server on stdio that answers the handshake and nothing else, and does not end: not with its input, not by SIGTERM,
nor does the process that it leaves behind in a session of its own. `python stubborn.py FILE` makes that file when it is
called."""

import json
import os
import signal
import sys
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(3600)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "stubborn", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif message.get("method") == "tools/call":
        open(sys.argv[1], "w").close()
while True:
    time.sleep(3600)
