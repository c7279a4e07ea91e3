"""Answer the requests of operators: look at sessions, links, routes and losses, and act on sessions and the log.

The OpenAPI document of the ops port is made of the types of its answers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from dragoman import __version__
from dragoman.adapters.base import CloseReason
from dragoman.gateway.app import App
from dragoman.gateway.observability import audit, logs
from dragoman.gateway.ops import answers
from dragoman.gateway.ops.gateway_loop import GatewayLoop
from dragoman.gateway.ops.guard import ProblemDetails, problem, respond
from dragoman.gateway.ops.queries import LossQuery, PageQuery, SessionQuery, parse_query
from dragoman.gateway.routing.router import Router
from dragoman.gateway.session.session import Session
from dragoman.mappings.codec import MALFORMED

SESSION = "/sessions/{id}"
BODY_DEADLINE = 5.0  # seconds for the body of a request, which is one packet

Read = Callable[..., Coroutine[Any, Any, Struct]]
"""A coroutine function that returns an answer. Its arguments are the gateway, and the query if there is one."""


class LogLevels(Struct, frozen=True, kw_only=True):
    """The level of the log, and of the components that have one of their own."""

    level: logs.Level
    components: dict[str, logs.Level]


class LogLevelChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The levels to set. A component with null has the level of the log again."""

    level: logs.Level | None = None
    components: Annotated[dict[str, logs.Level | None], Meta(max_length=32)] = {}


class Detached(Struct, frozen=True, kw_only=True):
    """The number of clients that were disconnected from a session."""

    detached: int


class Operation(Struct, frozen=True):
    """A request that the ops port answers; `answer` and `query` are the types of its JSON and of its parameters."""

    method: str
    path: str
    summary: str
    handler: Callable[[web.Request], Awaitable[web.Response]]
    answer: type[Struct] | None = None
    query: type[Struct] | None = None


class Admin:
    """The handlers of the ops port for operators. They read the gateway in its own loop."""

    def __init__(self, gateway: App, loop: GatewayLoop) -> None:
        self._gateway = gateway
        self._loop = loop

    def operations(self) -> list[Operation]:
        levels, set_levels = "Show the level of the log, by component.", "Change the level of the log, by component."
        routes = "List the routes, with the connections to their backends."
        config = "Show the configuration in force, without secrets."
        links = "List the clients that are connected."
        return [
            self._table("/sessions", "List sessions.", answers.session_page, answers.SessionPage, SessionQuery),
            Operation("get", SESSION, "Show a session with its clients.", self._session, answers.SessionDetail),
            Operation("delete", SESSION, "Close a session.", self._close),
            Operation("post", f"{SESSION}/detach", "Disconnect the clients of a session.", self._detach, Detached),
            self._table("/links", links, answers.link_page, answers.LinkPage, PageQuery),
            self._table("/routes", routes, answers.route_list, answers.RouteList),
            self._table("/losses", "Show what was not delivered.", answers.loss_page, answers.LossPage, LossQuery),
            self._table("/config", config, answers.config_in_force, answers.ConfigInForce),
            Operation("get", "/log-level", levels, self._log_level, LogLevels),
            Operation("put", "/log-level", set_levels, self._set_log_level, LogLevels),
        ]

    def _table(
        self, path: str, summary: str, read: Read, answer: type[Struct], query: type[Struct] | None = None
    ) -> Operation:
        """Return a GET operation that responds with the result of `read`, called with the gateway and any query."""

        async def show(request: web.Request) -> web.Response:
            wanted = () if query is None else (parse_query(request, query),)
            return respond(await self._loop.ask(lambda: read(self._gateway, *wanted)))

        return Operation("get", path, summary, show, answer, query)

    async def _session(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        detail = await self._loop.ask(lambda: answers.session_detail(self._gateway, name))
        return respond(detail) if detail is not None else _unknown(name)

    async def _close(self, request: web.Request) -> web.Response:
        def close(router: Router, session: Session) -> web.Response:
            text = router.close_session(session)
            return problem(409, text) if text else web.Response(status=204)

        return await self._with_session(request, close)

    async def _detach(self, request: web.Request) -> web.Response:
        def detach(_router: Router, session: Session) -> web.Response:
            links = [link for link in self._gateway.links if link.id in session.delivery.attachments]
            links = [link for link in links if not link.publishes]
            audit.note("detach", "operator", session=session.state.id, clients=len(links))
            for link in links:
                link.end(CloseReason.GOING_AWAY, "an operator disconnected the clients of this session")
            return respond(Detached(detached=len(links)))

        return await self._with_session(request, detach)

    async def _with_session(
        self, request: web.Request, answer: Callable[[Router, Session], web.Response]
    ) -> web.Response:
        name = request.match_info["id"]

        async def find_and_answer() -> web.Response:
            found = answers.find_session(self._gateway, name)
            return answer(*found) if found is not None else _unknown(name)

        return await self._loop.ask(find_and_answer)

    async def _log_level(self, _request: web.Request) -> web.Response:
        return respond({"level": logs.LEVEL.default, "components": logs.LEVEL.components})

    async def _set_log_level(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_DEADLINE):
                body = await request.read()
        except TimeoutError:
            return problem(408, f"the body did not come within {BODY_DEADLINE:g} s")
        try:
            change = msgspec.json.decode(body, type=LogLevelChange)
        except MALFORMED as error:
            known = f"the levels are {', '.join(logs.LEVELS)}"
            example = 'send for example {"level": "info", "components": {"link": "debug"}}'
            return problem(400, f"{error}; {known}; {example}")
        unknown = sorted(change.components.keys() - logs.COMPONENTS)
        if unknown:
            known = ", ".join(sorted(logs.COMPONENTS))
            return problem(400, f"unknown component {unknown[0]!r}: write one of {known}")
        logs.LEVEL.change(change.level, change.components)
        audit.note("log level", "operator", level=logs.LEVEL.default, components=logs.LEVEL.components)
        return await self._log_level(request)


def _unknown(name: str) -> web.Response:
    return problem(404, f"there is no session {name!r}")


def describe_ops(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of an ops port that answers these requests."""
    types = [one.answer for one in operations if one.answer is not None]
    wanted: list[type] = [*dict.fromkeys(types), LogLevelChange, ProblemDetails]
    schemas, components = msgspec.json.schema_components(wanted, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(wanted, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        described: dict[str, Any] = {"summary": one.summary, "responses": _responses(one, schema_of)}
        if one.query is not None:
            described["description"] = inspect.getdoc(one.query)
        parameters = _parameters(one.query)
        if "{id}" in one.path:
            parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
        if parameters:
            described["parameters"] = parameters
        if one.method == "put":
            described["requestBody"] = {"required": True, "content": _json(schema_of[LogLevelChange])}
        paths.setdefault(one.path, {})[one.method] = described
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dragoman ops port", "version": __version__},
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": bearer}},
    }


def _parameters(query: type[Struct] | None) -> list[dict[str, Any]]:
    """Return the parameters of a query, as its type has them."""
    if query is None:
        return []
    properties = msgspec.json.schema_components([query])[1][query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _responses(operation: Operation, schema_of: dict[type, Any]) -> dict[str, Any]:
    refused = {
        "description": "The request is refused, with the reason.",
        "content": {"application/problem+json": {"schema": schema_of[ProblemDetails]}},
    }
    if operation.method == "delete":
        return {"204": {"description": "The session is closed."}, "default": refused}
    done: dict[str, Any] = {"description": "The answer."}
    if operation.answer is not None:
        done["content"] = _json(schema_of[operation.answer])
    if operation.path in ("/livez", "/readyz"):
        return {"200": done, "503": done, "default": refused}
    return {"200": done, "default": refused}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
