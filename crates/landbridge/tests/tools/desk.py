"""A stdio server that does what the arguments of its tools say, and remembers what it was told.

Tools: echo, say (notifications), log, err (stderr), out (stray stdout), ask (one request, answered with the raw reply),
asks (many requests that it does not wait for), hang, progress, received. With --pages its lists have three pages,
with --sulky it lists nothing, with --delay S it takes its time to start.
"""
import json
import sys
import time

delay = float(sys.argv[sys.argv.index("--delay") + 1]) if "--delay" in sys.argv else 0
pages = "--pages" in sys.argv
sulky = "--sulky" in sys.argv
received, waiting, last_id = [], {}, 0
TOOLS = ["echo", "say", "log", "err", "out", "ask", "asks", "hang", "progress", "received"]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method, params):
    send({"method": method, "params": params})


def request(method, params):
    global last_id
    last_id += 1
    send({"id": "desk-%d" % last_id, "method": method, "params": params})
    return "desk-%d" % last_id


def text(id, value):
    said = value if isinstance(value, str) else json.dumps(value)
    send({"id": id, "result": {"content": [{"type": "text", "text": said}]}})


def call(id, name, args, meta):
    if name == "echo":
        return text(id, args)
    if name == "received":
        return text(id, received)
    if name == "hang":
        return None
    if name == "ask":
        waiting[request(args["method"], args["params"])] = id
        return None
    if name == "asks":
        if "after" in args:
            text(id, "soon")
            time.sleep(args["after"])
        for n in range(args["count"]):
            request("elicitation/create", {"message": "question %d" % n, "requestedSchema": {"type": "object", "properties": {}}})
        return None if "after" in args else text(id, "asked")
    if name == "progress":
        for n in range(args["count"]):
            note("notifications/progress", {"progressToken": meta["progressToken"], "progress": n, "message": "x" * args.get("size", 1)})
            time.sleep(args.get("pause", 0))
        return text(id, "done")
    if "after" in args:
        text(id, "soon")
        time.sleep(args["after"])
    for n in range(args.get("count", 1)):
        time.sleep(args.get("pause", 0))
        if name == "say":
            note(args.get("method", "notifications/resources/updated"), {"uri": "desk://%d" % n})
        elif name == "log":
            note("notifications/message", {"level": args.get("level", "info"), "logger": "desk", "data": n})
        elif name == "err":
            sys.stderr.write(args.get("line", "err %d" % n) + "\n")
            sys.stderr.flush()
        elif name == "out":
            sys.stdout.write("out %d\n" % n)
            sys.stdout.flush()
    return None if "after" in args else text(id, "done")


def listing(key, member, make, params):
    page = int(params.get("cursor", "0"))
    if not pages:
        return {key: [make(n) for n in TOOLS] if key == "tools" else []}
    result = {key: [make("%s-%d-%d" % (member, page, n)) for n in range(2)]}
    if page < 2:
        result["nextCursor"] = str(page + 1)
    return result


def answer(id, method, params):
    if method == "initialize":
        time.sleep(delay)
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        if pages:
            capabilities.update({"resources": {}, "prompts": {}})
        result = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": {"name": "desk", "version": "1"}}
    elif sulky and method.endswith("/list"):
        return send({"id": id, "error": {"code": -32603, "message": "no lists today"}})
    elif method == "tools/list":
        result = listing("tools", "tool", lambda n: {"name": n, "inputSchema": {"type": "object"}}, params)
    elif method == "resources/list":
        result = listing("resources", "resource", lambda n: {"uri": "desk://" + n, "name": n}, params)
    elif method == "resources/templates/list":
        result = listing("resourceTemplates", "template", lambda n: {"uriTemplate": "desk://" + n + "/{id}", "name": n}, params)
    elif method == "prompts/list":
        result = listing("prompts", "prompt", lambda n: {"name": n}, params)
    elif method == "tools/call":
        return call(id, params["name"], params.get("arguments", {}), params.get("_meta", {}))
    elif method in ("ping", "logging/setLevel"):
        result = {}
    else:
        return send({"id": id, "error": {"code": -32601, "message": "method not found"}})
    send({"id": id, "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        if message["id"] in waiting:
            text(waiting.pop(message["id"]), message)
        else:
            received.append(message)
    elif "id" in message:
        answer(message["id"], message["method"], message.get("params", {}))
    else:
        received.append(message)
