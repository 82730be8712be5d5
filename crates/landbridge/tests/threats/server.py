"""A server on stdio that writes down what it is asked and shows what it was started with. Python's own library only."""
import json
import os
import sys

RECORD = os.environ.get("RECORD")
LONG = os.environ.get("LONG")
TOOLS = ["echo", "started", "ask"] + (["ab" * int(LONG) + "!"] if LONG else [])


def say(message):
    message["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    if RECORD:
        with open(RECORD, "a") as record:
            record.write(line)
    return json.loads(line)


def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name).split(":")[0]
        except OSError:
            pass  # the folder while it was listed
    return found


def started():
    with open("/proc/self/environ", "rb") as file:
        environ = file.read().decode().split("\0")
    return {"args": [os.fsencode(arg).hex() for arg in sys.argv[1:]], "env": sorted(filter(None, environ)), "fds": descriptors()}


def call(name, args):
    if name == "echo":
        return json.dumps(args)
    if name == "started":
        return json.dumps(started())
    if name == "ask":
        say({"id": "ask", "method": args["method"], "params": args["params"]})
        while True:
            answer = hear()
            if answer.get("id") == "ask":
                return json.dumps(answer)
    return None


while True:
    message = hear()
    method, key = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "threatened", "version": "1"}
        version = message["params"]["protocolVersion"]
        say({"id": key, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        say({"id": key, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}})
    elif method == "tools/call":
        params = message["params"]
        answer = call(params["name"], params.get("arguments", {}))
        if answer is None:
            say({"id": key, "error": {"code": -32602, "message": "no such tool"}})
        else:
            say({"id": key, "result": {"content": [{"type": "text", "text": answer}]}})
    elif method == "ping":
        say({"id": key, "result": {}})
    elif key is not None and method:
        say({"id": key, "error": {"code": -32601, "message": "no such method"}})
