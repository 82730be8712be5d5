"""A server that does as its one argument, a JSON object, says; and writes down what happens to it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

PLAN = json.loads(sys.argv[1])
LOCK = threading.Lock()
TOOLS = PLAN.get("tools", ["echo", "add", "same", "slow", "die", "progress", "elicit", "collide", "roots", "tree"])
WAITING = {}
EXTRA = []
# Of a modern server: what is listened for, by the id of the request.
LISTENS = {}
MODERN = PLAN.get("modern", False)
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def note(line):
    with open(PLAN["log"], "a") as log:
        log.write(line + "\n")


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def started():
    note(f"start {os.getpid()}")
    with open(PLAN["log"]) as log:
        starts = sum(line.startswith("start ") for line in log)
    if starts >= PLAN.get("init_delay_from", starts + 1):
        PLAN["init_delay"] = 60
    if PLAN.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if starts in PLAN.get("fail_starts", []):
        sys.stderr.write("ä" * 5000 + "last words\n")
        sys.stderr.flush()
        os._exit(3)


def tool_names():
    path = PLAN.get("tools_file")
    if path and os.path.exists(path):
        with open(path) as file:
            return file.read().split() + EXTRA
    return TOOLS + EXTRA


def paged(member, rows, params):
    size = PLAN.get("page", len(rows) or 1)
    start = int((params or {}).get("cursor", "0"))
    page = {"_meta": {"from": "server"}, member: rows[start : start + size]}
    if start + size < len(rows):
        page["nextCursor"] = str(start + size)
    return page


def tools(params):
    rows = [{"name": name, "inputSchema": {"type": "object"}, "_meta": {"n": 1.0}} for name in tool_names()]
    return paged("tools", rows, params)


def ask(id, method, params):
    done = threading.Event()
    WAITING[json.dumps(id)] = [done, None]
    send({"id": id, "method": method, "params": params})
    done.wait(20)
    return WAITING.pop(json.dumps(id))[1]


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def tools_changed():
    if not MODERN:
        return send({"method": "notifications/tools/list_changed"})
    for id, wanted in list(LISTENS.values()):
        if wanted.get("toolsListChanged"):
            send({"method": "notifications/tools/list_changed", "params": {"_meta": {SUBSCRIPTION: id}}})


def call(id, params):
    name, arguments = params["name"], params.get("arguments", {})
    if name == "add":
        EXTRA.append(arguments["tool"])
        for _ in range(arguments.get("times", 1)):
            tools_changed()
        return text("added")
    if name == "unlisten":
        # Every listen ends, and what changes now is told to nobody.
        while LISTENS:
            listen, _ = LISTENS.popitem()[1]
            send({"id": listen, "result": {"resultType": "complete"}})
        EXTRA.append(arguments["tool"])
        return text("nobody listens")
    if name == "same":
        tools_changed()
        return text("nothing is new")
    if name == "slow":
        note(f"slow {json.dumps(id)}")
        time.sleep(arguments["seconds"])
        return text("slept")
    if name == "die":
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(7)
    if name == "progress":
        token = params["_meta"]["progressToken"]
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        time.sleep(arguments.get("seconds", 0.5))
        return text("done")
    if name == "elicit":
        return text(ask("q-1", "elicitation/create", {"message": "who?", "requestedSchema": {"type": "object"}}))
    if name == "collide":
        # The very id under which it was called, as a request of its own.
        return text(ask(id, "elicitation/create", {"message": "who?", "requestedSchema": {"type": "object"}}))
    if name == "sample":
        return text(ask("s-1", "sampling/createMessage", {"messages": [], "maxTokens": 1}))
    if name == "grow":
        PLAN["rows"] += 1
        send({"method": "notifications/resources/list_changed"})
        return text("grown")
    if name == "babble":
        with LOCK:
            sys.stdout.write("npm WARN this is no message\n{\"jsonrpc\":\n\n")
            sys.stdout.flush()
        return text("said")
    if name == "roots":
        return text(ask("r-1", "roots/list", {}))
    if name == "pid":
        note(f"begin {os.getpid()}")
        time.sleep(arguments.get("seconds", 0))
        note(f"end {os.getpid()}")
        return text(str(os.getpid()))
    if name == "tree":
        child = subprocess.Popen(["sh", "-c", "sleep 600 & wait"])
        return text(str(child.pid))
    if name == "unknown":
        return None
    return text(arguments)


def answer(message):
    global MODERN
    # One that speaks both eras is greeted in one of them.
    if MODERN == "both" and message["method"] == "initialize":
        MODERN = False
    id, method, params = message["id"], message["method"], message.get("params")
    if method in PLAN.get("hang", []):
        return
    result = None
    if method in PLAN.get("broken", []) and not os.path.exists(PLAN["repaired"]):
        return send({"id": id, "error": {"code": -32603, "message": "it is broken"}})
    if method in ("server/discover", "subscriptions/listen") and MODERN:
        return modern(id, method, params)
    if method == "initialize" and not MODERN:
        time.sleep(PLAN.get("init_delay", 0))
        note(f"hello {params['clientInfo']['name']} {params['protocolVersion']} {json.dumps(params['capabilities'])}")
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
        result = {
            "protocolVersion": PLAN.get("version", params["protocolVersion"]),
            "capabilities": PLAN.get("capabilities", capabilities),
            "serverInfo": {"name": "scripted", "version": "1.0", "x": 1.0},
            "instructions": "as \u00fcsual",
        }
    elif method == "tools/list":
        result = tools(params)
    elif method == "resources/list" and "rows" not in PLAN:
        result = {"resources": [{"uri": "a://b", "name": "b"}]}
    elif method in ("prompts/list", "resources/list", "resources/templates/list") and "rows" in PLAN:
        member = {"prompts/list": "prompts", "resources/list": "resources"}.get(method, "resourceTemplates")
        key = {"prompts/list": "name", "resources/list": "uri"}.get(method, "uriTemplate")
        result = paged(member, [{key: f"a://{n}", "name": f"a://{n}"} for n in range(PLAN["rows"])], params)
    elif method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        note(f"{method} {json.dumps(params)}")
        result = {}
    elif method == "tools/call":
        result = call(id, params)
        if result is None:
            return send({"id": id, "error": {"code": -32001, "message": "no such tool", "data": {"n": 1.0}}})
    elif method == "own/method":
        result = {"own": params}
    if result is None:
        return send({"id": id, "error": {"code": -32601, "message": "Method not found: " + method}})
    if MODERN:
        result = {"resultType": "complete", **result}
        if method.endswith("/list"):
            result = {**result, "ttlMs": PLAN.get("ttl", 60000), "cacheScope": "public"}
    send({"id": id, "result": result})


def modern(id, method, params):
    if method == "subscriptions/listen":
        LISTENS[json.dumps(id)] = (id, params["notifications"])
        granted = {"notifications": params["notifications"], "_meta": {SUBSCRIPTION: id}}
        return send({"method": "notifications/subscriptions/acknowledged", "params": granted})
    time.sleep(PLAN.get("init_delay", 0))
    changes = PLAN.get("announces", True)
    result = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": changes}, "resources": {"subscribe": True}},
        "instructions": "as \u00fcsual",
        "ttlMs": PLAN.get("ttl", 60000),
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1.0", "x": 1.0}},
    }
    send({"id": id, "result": result})


def main():
    started()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            waiting = WAITING.get(json.dumps(message["id"]))
            if waiting:
                waiting[1] = message.get("result", message.get("error"))
                waiting[0].set()
        elif "id" in message:
            note("request " + message["method"])
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        else:
            note("note " + message["method"])
            if message["method"] == "notifications/cancelled":
                note("cancelled " + json.dumps(message["params"]["requestId"]))
                LISTENS.pop(json.dumps(message["params"]["requestId"]), None)
    if PLAN.get("ignore_term"):
        time.sleep(600)
    os._exit(0)


main()
