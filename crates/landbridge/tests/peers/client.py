"""Python SDK 2.x: a scenario as JSON on stdin, one JSON document of everything that was seen on stdout.

The same steps and the same document as steps.mjs.
"""

import json
import sys
import traceback

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters

PATIENCE = 40.0
MODES = {"legacy": "legacy", "modern": "auto"}


class Seen:
    """What a run saw, step by step."""

    def __init__(self, answers):
        self.answers = answers
        self.record = None
        self.unsolicited = []
        self.asked = anyio.Event()

    def begin(self, step):
        self.record = {"step": step, "asks": [], "progress": []}
        return self.record

    def ask(self, method, params):
        ask = {"method": method, "params": None if params is None else dump(params)}
        calling = self.record is not None and self.record["step"]["do"] != "await"
        (self.record["asks"] if calling else self.unsolicited).append(ask)
        self.asked.set()
        own = (self.record or {}).get("step", {}).get("answers", {})
        return own.get(method, self.answers[method])

    def callbacks(self):
        async def elicit(_, params):
            return types.ElicitResult.model_validate(self.ask("elicitation/create", params))

        async def sample(_, params):
            return types.CreateMessageResult.model_validate(self.ask("sampling/createMessage", params))

        async def roots(_):
            return types.ListRootsResult.model_validate(self.ask("roots/list", None))

        return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def observe(run):
    seen = Seen(run["answers"])
    document = {"steps": []}
    server = run["server"]
    target = server["url"] if "url" in server else StdioServerParameters(**server)
    callbacks = seen.callbacks() if run["capabilities"] else {}
    try:
        async with Client(target, mode=MODES[run["era"]], **callbacks) as client:
            document["server"] = {
                "revision": client.protocol_version,
                "info": client.server_info and dump(client.server_info),
                "capabilities": dump(client.server_capabilities),
                "instructions": client.instructions,
            }
            for step in run["steps"]:
                record = seen.begin(step)
                with anyio.fail_after(PATIENCE):
                    await take(client, step, seen, record)
                document["steps"].append(record)
                seen.record = None
    except BaseException as error:  # a group of them, when a task of the client fails
        document["failure"] = "".join(traceback.format_exception(error))
    return document


async def take(client, step, seen, record):
    async def progressed(progress, total, message):
        record["progress"].append({"progress": progress, "total": total, "message": message})

    try:
        match step["do"]:
            case "list":
                lists = {
                    "tools": client.list_tools,
                    "prompts": client.list_prompts,
                    "resources": client.list_resources,
                    "templates": client.list_resource_templates,
                }
                result = dump(await lists[step["what"]]())
            case "read":
                result = dump(await client.read_resource(step["uri"]))
            case "prompt":
                result = dump(await client.get_prompt(step["name"], step["arguments"]))
            case "complete":
                kinds = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}
                ref = kinds[step["ref"]["type"]].model_validate(step["ref"])
                result = dump(await client.complete(ref, step["argument"]))
            case "call":
                callback = progressed if step.get("progress") else None
                result = dump(await client.call_tool(step["name"], step["arguments"], progress_callback=callback))
            case "await":
                while not any(ask["method"] == step["method"] for ask in seen.unsolicited):
                    await seen.asked.wait()
                    seen.asked = anyio.Event()
                result = next(ask for ask in seen.unsolicited if ask["method"] == step["method"])
            case "cancel":
                result = await cancel(client, step)
            case "counters":
                result = await counters(client, step["tool"])
        record["result"] = result
    except MCPError as error:
        record["error"] = {"code": error.code, "message": error.message, "data": error.data}


async def cancel(client, step):
    """Calls a tool, cancels the call at its first progress, and says what that progress was."""
    first = None
    with anyio.CancelScope() as scope:

        async def progressed(progress, total, message):
            nonlocal first
            first = first or {"progress": progress, "total": total, "message": message}
            scope.cancel()

        result = await client.call_tool(step["name"], step["arguments"], progress_callback=progressed)
        return {"uncancelled": dump(result)}
    return {"first": first}


async def counters(client, tool):
    """How often the server started, finished and stopped a tool, once it has stopped one."""
    while True:
        tallies = (await client.call_tool("counters", {})).structured_content
        if tallies.get(tool, {}).get("cancelled", 0) > 0:
            return tallies[tool]
        await anyio.sleep(0.02)


async def main():
    runs = json.load(sys.stdin)["runs"]
    seen = [None] * len(runs)

    async def into(index, run):
        seen[index] = await observe(run)

    async with anyio.create_task_group() as group:
        for index, run in enumerate(runs):
            group.start_soon(into, index, run)
    json.dump({"runs": seen}, sys.stdout)


anyio.run(main)
