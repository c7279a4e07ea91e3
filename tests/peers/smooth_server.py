"""The real smooth server from PyPI in the test's own loop, with its scripted mock model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from smooth_operator_core import FunctionTool, MockLlmProvider
from smooth_operator_server import InMemorySessionStore, ServerState, serve

__all__ = ["RealServer", "serving"]


class RealServer:
    """A running server; `model` is scripted first in, first out."""

    def __init__(self, server: Any, model: MockLlmProvider, deleted: list[str]) -> None:
        self.server = server
        self.model = model
        self.deleted = deleted

    @property
    def endpoint(self) -> str:
        """Where dragoman dials it."""
        return f"smooth+{self.server.ws_url()}"


async def _lookup(arguments: dict[str, str]) -> str:
    return f"Order {arguments['id']} shipped."


@asynccontextmanager
async def serving() -> AsyncIterator[RealServer]:
    """A server with a tool that needs no approval (lookup_order) and one that does (delete_record)."""
    model, deleted = MockLlmProvider(), list[str]()

    async def delete(arguments: dict[str, str]) -> str:
        deleted.append(arguments["id"])
        return f"deleted {arguments['id']}"

    parameters = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    tools = [
        FunctionTool(name="lookup_order", description="Look an order up.", parameters=parameters, func=_lookup),
        FunctionTool(name="delete_record", description="Delete a record.", parameters=parameters, func=delete),
    ]
    state = ServerState(store=InMemorySessionStore(), chat_client=model, tools=tools, confirm_tools=["delete_record"])
    server = await serve(state, "127.0.0.1", 0, admin_port=0)
    try:
        yield RealServer(server, model, deleted)
    finally:
        await server.shutdown()
