"""The real smooth server from PyPI in the test's own loop, with its scripted mock model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from smooth_operator_core import FunctionTool, MockLlmProvider
from smooth_operator_server import InMemorySessionStore, ServerState, serve
from smooth_operator_server.agent_config import AgentConfig, EnabledTool, StaticAgentConfigResolver
from smooth_operator_server.otp import (
    OtpChannel,
    OtpContact,
    OtpDelivery,
    OtpError,
    OtpInvalid,
    OtpService,
    OtpVerified,
)


class RealServer:
    """A running server; `model` returns its scripted answers in order, and lookups wait while `shelves` is cleared."""

    def __init__(self, server: Any, model: MockLlmProvider, deleted: list[str], shelves: asyncio.Event) -> None:
        self.server = server
        self.model = model
        self.deleted = deleted
        self.shelves = shelves

    @property
    def url(self) -> str:
        """The address for smooth clients."""
        return str(self.server.ws_url())

    @property
    def endpoint(self) -> str:
        """The endpoint that dragoman dials."""
        return f"smooth+{self.url}"

    async def stop(self) -> None:
        """Stop the server with all its connections."""
        await _stop(self.server)


@asynccontextmanager
async def hosted(model: MockLlmProvider, **parts: Any) -> AsyncIterator[Any]:
    """Run a server with this model; `parts` are added to its state: tools, confirm_tools, knowledge, otp_service ..."""
    state = ServerState(store=InMemorySessionStore(), chat_client=model, **parts)
    server = await serve(state, "127.0.0.1", 0, admin_port=0)
    try:
        yield server
    finally:
        await _stop(server)


async def _stop(server: Any) -> None:
    """Stop the server if it runs. Its admin API checks twice a second whether to stop, so connections wake it.

    Once it accepts no more, a further connection may wait for ever behind those that nobody accepted.
    """
    if server.state.cancel.is_set():
        return
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(asyncio.to_thread(server._admin_httpd.shutdown), name="admin API")
        while not stopping.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    _, writer = await asyncio.open_connection(server.host, server.admin_port)
                    writer.close()
            await asyncio.wait([stopping], timeout=0.01)
    await server.shutdown()


@asynccontextmanager
async def serving(**parts: Any) -> AsyncIterator[RealServer]:
    """Run a server with a tool that needs no approval (lookup_order) and one that does (delete_record)."""
    model, deleted, shelves = MockLlmProvider(), list[str](), asyncio.Event()
    shelves.set()

    async def lookup(arguments: dict[str, str]) -> str:
        await shelves.wait()
        return f"Order {arguments['id']} shipped."

    async def delete(arguments: dict[str, str]) -> str:
        deleted.append(arguments["id"])
        return f"deleted {arguments['id']}"

    parameters = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    tools = [
        FunctionTool(name="lookup_order", description="Look an order up.", parameters=parameters, func=lookup),
        FunctionTool(name="delete_record", description="Delete a record.", parameters=parameters, func=delete),
    ]
    tools[0].supports_auth_requirement = True  # an agent may ask for a verified user before it
    async with hosted(model, tools=tools, confirm_tools=["delete_record"], **parts) as server:
        yield RealServer(server, model, deleted, shelves)


class Codes(OtpService):  # type: ignore[misc]  # the package brings no types
    """One-time codes of the server: the right one is 123456."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    async def send_otp(self, session_id: str, contact: OtpContact) -> OtpDelivery:
        return OtpDelivery(OtpChannel.EMAIL, "a***@example.com")

    async def verify_otp(self, session_id: str, code: str) -> OtpVerified | OtpInvalid:
        self.tried.append(code)
        return OtpVerified() if code == "123456" else OtpInvalid(2, "That code is wrong.", OtpError.INVALID_CODE)


def verified_only(agent: str) -> dict[str, Any]:
    """Return parts of a server on which this agent looks up orders only for verified users."""
    tools = [EnabledTool(tool_id="lookup_order", auth_level="end_user")]
    config = AgentConfig(enabled_tools=tools, visibility="public")
    return {"otp_service": Codes(), "agent_config_resolver": StaticAgentConfigResolver({agent: config})}
