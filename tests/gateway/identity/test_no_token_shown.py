"""A gateway with everything on shows no token in its log, its recordings, the ops port, or what clients read."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
import jwt

from tests.conformance.fake_smooth import FakeSmooth
from tests.peers.processes import running

DEADLINE = 40.0  # seconds for the whole life of the gateway
SIGNING = "signing-secret-0123456789-0123456789"
HEADER, QUERY, UPSTREAM, OPS = (f"{name}-token-5f3b9c7e21d84a60" for name in ("header", "query", "upstream", "ops"))
WRONG = "wrong-token-5f3b9c7e21d84a60"
PATHS = ("/readyz?verbose", "/metrics", "/sessions", "/links", "/routes", "/losses", "/config", "/openapi.json")
CREATE = {"action": "create_conversation_session", "requestId": "1", "agentId": str(UUID(int=1))}


def configuration(folder: Path, upstream: str) -> str:
    return f"""
[auth.tokens]
header = "{HEADER}"
query = "{QUERY}"
[auth.jwt]
secret = "{SIGNING}"
audience = "here"
[ops]
listen = "unix:{folder}/ops.sock"
tokens = ["{OPS}"]
[recording]
path = "{folder}/recordings/"
links = "all"
compress = false
[[route]]
name = "own"
listen = ["smooth+ws://127.0.0.1:0/ws"]
upstream = "{upstream}?token={UPSTREAM}"
record = true
[[route]]
name = "forward"
listen = ["smooth+ws://127.0.0.1:0/ws"]
upstream = "{upstream}"
upstream_auth = "forward"
record = true
"""


async def talk(http: aiohttp.ClientSession, url: str, **headers: str) -> str:
    """Say something in a new session; return all that the client is shown."""
    shown = ""
    async with http.ws_connect(url, headers=headers) as client:
        await client.send_json(CREATE)
        shown += (opened := await client.receive_str())
        session = json.loads(opened)["data"]["sessionId"]
        await client.send_json({"action": "send_message", "requestId": "2", "sessionId": session, "message": "hi"})
        await client.send_json({"action": "nonsense", "requestId": "3", "token": "x"})
        while '"eventual_response"' not in shown:
            shown += await client.receive_str()
    return shown


async def refused(url: str) -> str:
    """Return the answers to a wrong token and to a malformed request with a token."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}?token={WRONG}".replace("ws:", "http:", 1)) as answer:
        shown = f"{answer.status} {answer.headers} {await answer.text()}"
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.write(f"GET /ws HTTP/1.1\r\nAuthorization: Bearer {HEADER}\r\nContent-Length: x\r\n\r\n".encode())
    shown += (await reader.readline()).decode()
    writer.close()
    return shown


async def ask_ops(socket: Path) -> str:
    """Return all answers of the ops port."""
    shown = ""
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as http:
        for path in PATHS:
            async with http.get(f"http://ops{path}", headers={"Authorization": f"Bearer {OPS}"}) as answer:
                assert answer.status in (200, 503), path
                shown += await answer.text()
    return shown


async def test_no_token_is_shown_by_a_gateway_with_everything_on(tmp_path: Path) -> None:
    signed = jwt.encode({"sub": "carol", "aud": "here", "exp": int(time.time()) + 600}, SIGNING, algorithm="HS256")
    config = tmp_path / "config.toml"
    async with asyncio.timeout(DEADLINE), FakeSmooth.serving() as backend, aiohttp.ClientSession() as http:
        config.write_text(configuration(tmp_path, backend.url))
        config.chmod(0o600)
        async with running("serve", "--config", str(config), "--log-level", "debug", "--log-content") as gateway:
            await gateway.until(lambda: len(gateway.endpoints) == 2)
            urls = [endpoint.removeprefix("smooth+") for endpoint in gateway.endpoints]
            shown = ""
            for url in urls:
                shown += await talk(http, url, Authorization=f"Bearer {HEADER}")
                shown += await talk(http, f"{url}?token={QUERY}")
                shown += await talk(http, url, Authorization=f"Bearer {signed}")
                shown += await refused(url)
            shown += await ask_ops(tmp_path / "ops.sock")
    log = "\n".join(gateway.log)
    recorded = [
        path.read_bytes().decode("utf-8", "replace") for path in (tmp_path / "recordings").rglob("*") if path.is_file()
    ]
    assert "HTTP requests or TLS handshakes refused" in log
    assert len(recorded) >= len(urls)
    secrets = (HEADER, QUERY, UPSTREAM, OPS, WRONG, SIGNING, signed)
    everything = {"log": log, "shown": shown, **{f"recording {number}": text for number, text in enumerate(recorded)}}
    assert [(where, secret) for where, text in everything.items() for secret in secrets if secret in text] == []
