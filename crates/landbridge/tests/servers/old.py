"""A server of the Python SDK that speaks only HTTP+SSE, on loopback. Its argument is the port; 0 is a free one."""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import EmptyResult, SetLevelRequestParams
from pydantic import BaseModel

server = MCPServer("old")


class Person(BaseModel):
    name: str


@server.tool()
async def echo(message: str) -> str:
    return message


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    for step in range(count):
        await ctx.report_progress(step + 1, count)
    return "done"


@server.tool()
async def who(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.action} {answer.data.name if answer.action == 'accept' else ''}"


@server.tool()
async def sleep(ms: int) -> str:
    await asyncio.sleep(ms / 1000)
    return f"slept {ms} ms"


@server.tool()
async def level() -> str:
    return levels[-1]


levels = ["none"]


async def set_level(_, params: SetLevelRequestParams) -> EmptyResult:
    levels.append(params.level)
    return EmptyResult()


server._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
config = uvicorn.Config(server.sse_app(), log_level="error")
asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
