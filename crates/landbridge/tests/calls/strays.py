"""A server on stdio that asks for the roots from a thread of its own, whatever its calls do."""

import json
import sys
import threading

lock = threading.Lock()
answers = []


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def call(name):
    if name == "ask":
        asking = threading.Thread(target=send, args=({"id": "bg", "method": "roots/list"},))
        asking.start()
        asking.join()
        return "asked"
    if name == "take_back":
        send({"method": "notifications/cancelled", "params": {"requestId": "bg"}})
        return "taken back"
    return json.dumps(answers)


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "strays", "version": "1"}
        send({"id": number, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/call":
        text = call(message["params"]["name"])
        send({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "take_back", "heard")]
        send({"id": number, "result": {"tools": tools}})
    elif method is None and number == "bg":
        answers.append(message.get("result", message.get("error")))
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})
