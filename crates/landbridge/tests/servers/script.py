"""A stdio server that does what its callers say: asks, logs, dies, changes between two lives.

Its one argument is a JSON object:
  lives         file that gets one line with the process id per start
  first_words   text for stderr before anything is read
  dies_if       file with which it exits at once with code 7
  dies_at_hello exits with code 9 when it is asked to initialize
  gate          file without which it does not answer initialize
  grown         file with which it has one more tool
  deaf          ignores the end of stdin
"""

import json
import os
import queue
import signal
import sys
import threading
import time

settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
life = 1
if "lives" in settings:
    with open(settings["lives"], "a") as lives:
        lives.write(f"{os.getpid()}\n")
    with open(settings["lives"]) as lives:
        life = len(lives.readlines())

for line in settings.get("first_words", "").splitlines():
    print(line, file=sys.stderr, flush=True)
if os.path.exists(settings.get("dies_if", "")):
    os._exit(7)

out_lock = threading.Lock()
answers = {}
received = []
hello = {}
subscribed = set()


def write(line):
    with out_lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def ask(method, params):
    key = f"ask-{len(answers) + 1}"
    answers[key] = queue.Queue()
    send(id=key, method=method, params=params)
    answer = answers[key].get()
    return answer.get("result", answer.get("error"))


def form(arguments):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {"message": arguments.get("message", "Who are you?"), "requestedSchema": schema}


def sample(arguments):
    content = {"type": "text", "text": arguments.get("message", "Say something")}
    return {"messages": [{"role": "user", "content": content}], "maxTokens": 10}


def note(arguments):
    send(method=arguments["method"], params=arguments.get("params", {}))
    return "noted"


def touch(arguments):
    uri = arguments["uri"]
    if uri not in subscribed:
        return "nobody is subscribed"
    send(method="notifications/resources/updated", params={"uri": uri})
    return "told"


def sleep(arguments):
    time.sleep(arguments["ms"] / 1000)
    return "slept"


def die(arguments):
    sys.stderr.write(arguments.get("words", ""))
    sys.stderr.flush()
    if "signal" in arguments:
        os.kill(os.getpid(), getattr(signal, arguments["signal"]))
        time.sleep(60)
    os._exit(arguments.get("code", 0))


def say(arguments):
    if arguments.get("to") == "stdout":
        write(arguments["text"])
    else:
        print(arguments["text"], file=sys.stderr, flush=True)
    return "said"


TOOLS = {
    "echo": lambda a: a.get("message", ""),
    "big": lambda a: "x" * a["bytes"],
    "pid": lambda a: str(os.getpid()),
    "life": lambda a: str(life),
    "die": die,
    "sleep": sleep,
    "hang": lambda a: time.sleep(600),
    "elicit": lambda a: json.dumps(ask("elicitation/create", form(a))),
    "sample": lambda a: json.dumps(ask("sampling/createMessage", sample(a))),
    "note": note,
    "log": lambda a: note({"method": "notifications/message", "params": a}),
    "say": say,
    "touch": touch,
    "subscribed": lambda a: json.dumps(sorted(subscribed)),
    "received": lambda a: json.dumps(received),
    "hello": lambda a: json.dumps(hello),
    "variable": lambda a: os.environ.get(a["name"], ""),
}


def tools():
    names = list(TOOLS)
    if os.path.exists(settings.get("grown", "")):
        names.append("grown")
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def call(key, params):
    name = params["name"]
    if name not in TOOLS:
        return send(id=key, error={"code": -32602, "message": f"no tool {name}"})
    text = TOOLS[name](params.get("arguments") or {})
    send(id=key, result={"content": [{"type": "text", "text": text}]})


def initialize(params):
    hello.update(params)
    if settings.get("dies_at_hello"):
        os._exit(9)
    while "gate" in settings and not os.path.exists(settings["gate"]):
        time.sleep(0.01)
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}, "prompts": {}}
    version = params["protocolVersion"]
    known = version if version in ("2025-11-25", "2025-06-18", "2025-03-26") else "2025-11-25"
    return {"protocolVersion": known, "capabilities": capabilities, "serverInfo": {"name": "script", "version": "1.2"}}


def answer(method, params):
    if method == "initialize":
        return initialize(params)
    if method == "tools/list":
        return {"tools": tools()}
    if method == "resources/list":
        return {"resources": [{"uri": "test://one", "name": "one"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "prompts/list":
        return {"prompts": []}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"life {life}"}]}
    if method == "resources/subscribe":
        subscribed.add(params["uri"])
        return {}
    if method == "resources/unsubscribe":
        subscribed.discard(params["uri"])
        return {}
    if method in ("ping", "logging/setLevel"):
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    method, key, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        if key in answers:
            answers[key].put(message)
        continue
    received.append({"method": method, "params": params})
    if key is None:
        continue
    if method == "tools/call":
        threading.Thread(target=call, args=(key, params), daemon=True).start()
        continue
    result = answer(method, params)
    if result is None:
        send(id=key, error={"code": -32601, "message": f"no method {method}"})
    else:
        send(id=key, result=result)

if settings.get("deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
os._exit(0)
