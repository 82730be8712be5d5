"""A server on stdio that answers nothing but the handshake, and writes down what it is told: `python silent.py LOG`."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        able = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        info = {"name": "silent", "version": "1"}
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": able, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
    else:
        with open(sys.argv[1], "a") as log:
            asked = message.get("params", {}).get("requestId")
            log.write(json.dumps({"method": method, "id": number, "requestId": asked}) + "\n")
