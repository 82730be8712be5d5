"""A server on stdio whose tools make things happen. Python's own library only."""
import json
import os
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
cancelled = []
asked = 0


def say(message):
    message["jsonrpc"] = "2.0"
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def note(method, params=None):
    say({"method": method, "params": params or {}})


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def ask(method, params):
    global asked
    with lock:
        asked += 1
        key = "ask-%d" % asked
    done = threading.Event()
    waiting[key] = [done, None]
    say({"id": key, "method": method, "params": params})
    done.wait(60)
    answer = waiting.pop(key)[1] or {}
    return json.dumps(answer.get("result", answer.get("error")))


def burst(args):
    for n in range(args["from"], args["from"] + args["count"]):
        note("notifications/burst", {"n": n})


def call(name, args, key):
    if name == "echo":
        return text(json.dumps(args))
    if name == "who":
        return text(sys.argv[1] if 1 < len(sys.argv) else "")
    if name == "slow":
        time.sleep(args["ms"] / 1000)
        return text("slow")
    if name == "hold":
        while key not in cancelled:
            time.sleep(0.02)
        return text("held")
    if name == "cancelled":
        return text(str(len(cancelled)))
    if name == "burst":
        burst(args)
        return text("burst")
    if name == "changed":
        note("notifications/tools/list_changed")
        return text("changed")
    if name == "log":
        for n in range(args.get("from", 0), args.get("from", 0) + args["count"]):
            note("notifications/message", {"level": args.get("level", "info"), "data": "line %d" % n})
        return text("logged")
    if name == "print":
        stream = sys.stderr if args["to"] == "stderr" else sys.stdout
        with lock:
            stream.write(args["line"] + "\n")
            stream.flush()
        return text("printed")
    if name == "elicit":
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        return text(ask("elicitation/create", {"message": "who?", "requestedSchema": schema}))
    if name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": "say"}}
        return text(ask("sampling/createMessage", {"messages": [message], "maxTokens": 9}))
    if name == "later":
        threading.Timer(args["ms"] / 1000, lambda: note("notifications/later", {"n": args.get("n", 0)})).start()
        return text("later")
    if name == "crash":
        os._exit(args["code"])
    return None


def run(message):
    params = message.get("params", {})
    result = call(params["name"], params.get("arguments", {}), message["id"])
    if message["id"] in cancelled:
        return
    if result is None:
        say({"id": message["id"], "error": {"code": -32602, "message": "no such tool"}})
    else:
        say({"id": message["id"], "result": result})


TOOLS = ["echo", "who", "slow", "hold", "cancelled", "burst", "changed", "log", "print", "elicit", "sample", "later", "crash"]

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        info = {"name": "activity", "version": "1"}
        version = message["params"]["protocolVersion"]
        say({"id": message["id"], "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        say({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        threading.Thread(target=run, args=(message,), daemon=True).start()
    elif method == "notifications/cancelled":
        cancelled.append(message["params"]["requestId"])
    elif method is None:
        slot = waiting.get(message["id"])
        if slot:
            slot[1] = message
            slot[0].set()
    elif "id" in message:
        if method in ("ping", "logging/setLevel"):
            say({"id": message["id"], "result": {}})
        else:
            say({"id": message["id"], "error": {"code": -32601, "message": "no"}})
