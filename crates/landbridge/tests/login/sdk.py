"""The Python SDK from a bare 401 to a call and a refresh. Arguments: the URL, and where there is one the address of the
client's document.

Says where a browser must go as one line of JSON, reads where it came out, and says what a call answered. With MORE in the
environment (a call as JSON), it makes a call that its token may not, and the SDK follows the challenge by itself.
"""

import json
import os
import sys
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

REDIRECT = "http://127.0.0.1:4711/cb"


class Storage:
    """Everything in memory."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def say(what):
    print(json.dumps(what), flush=True)


async def redirect(url):
    say({"authorize": url})


async def callback():
    query = parse_qs(urlsplit(await anyio.to_thread.run_sync(sys.stdin.readline)).query)
    one = lambda name: query.get(name, [None])[0]
    return AuthorizationCodeResult(code=one("code"), state=one("state"), iss=one("iss"))


async def main():
    url, document = sys.argv[1], (sys.argv[2:] or [None])[0]
    metadata = OAuthClientMetadata(
        client_name="Python",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    storage = Storage()
    auth = OAuthClientProvider(url, metadata, storage, redirect, callback, client_metadata_url=document)
    async with httpx2.AsyncClient(auth=auth, timeout=40) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            tools = await client.list_tools()
            answer = await client.call_tool("list_servers", {})
            # A token that is over is refreshed on the way, without anybody.
            first, auth.context.token_expiry_time = storage.tokens.access_token, 1
            await client.call_tool("list_servers", {})
            refreshed = storage.tokens.access_token != first
            say({"tools": len(tools.tools), "answer": json.loads(answer.model_dump_json()), "refreshed": refreshed})
            if more := json.loads(os.environ.get("MORE", "null")):
                before = storage.tokens.scope
                answer = await client.call_tool(more["name"], more["arguments"])
                listed = await client.call_tool("list_servers", {})
                said = {"before": before, "after": storage.tokens.scope}
                say(said | {"answer": json.loads(answer.model_dump_json()), "listed": json.loads(listed.model_dump_json())})


anyio.run(main)
