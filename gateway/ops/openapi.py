"""Describe the ops port as an OpenAPI document, made of the types of its answers."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
from msgspec import Struct

from dragoman import __version__
from dragoman.gateway.ops.admin import Detached, LogLevelChange, LogLevels
from dragoman.gateway.ops.answers import ConfigInForce, LinkPage, LossPage, RouteList, SessionDetail, SessionPage
from dragoman.gateway.ops.guard import ProblemDetails
from dragoman.gateway.ops.health import Liveness, Readiness
from dragoman.gateway.ops.queries import LossQuery, PageQuery, ReadinessQuery, SessionQuery

OPERATIONS: tuple[tuple[str, str, str, type | None, type[Struct] | None], ...] = (
    ("get", "/livez", "Tell whether the event loop turns (200) or is stuck (503).", Liveness, None),
    ("get", "/readyz", "Tell whether clients can be served (200) or why not (503).", Readiness, ReadinessQuery),
    ("get", "/metrics", "Show the metrics for Prometheus.", None, None),
    ("get", "/sessions", "List sessions.", SessionPage, SessionQuery),
    ("get", "/sessions/{id}", "Show a session with its clients.", SessionDetail, None),
    ("delete", "/sessions/{id}", "Close a session.", None, None),
    ("post", "/sessions/{id}/detach", "Disconnect the clients of a session.", Detached, None),
    ("get", "/links", "List the clients that are connected.", LinkPage, PageQuery),
    ("get", "/routes", "List the routes, with the connections to their backends.", RouteList, None),
    ("get", "/losses", "Show what was not delivered.", LossPage, LossQuery),
    ("get", "/config", "Show the configuration in force, without secrets.", ConfigInForce, None),
    ("get", "/log-level", "Show the level of the log, by component.", LogLevels, None),
    ("put", "/log-level", "Change the level of the log, by component.", LogLevels, None),
    ("get", "/openapi.json", "Show this description.", None, None),
)
"""Method, path, summary, type of the answer, and of the query."""


def describe_ops() -> dict[str, Any]:
    """Return the OpenAPI document of the ops port."""
    types = [answer for *_, answer, _query in OPERATIONS if answer is not None]
    wanted = [*dict.fromkeys(types), LogLevelChange, ProblemDetails]
    schemas, components = msgspec.json.schema_components(wanted, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(wanted, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, answer, query in OPERATIONS:
        operation: dict[str, Any] = {"summary": summary, "responses": _responses(method, path, answer, schema_of)}
        if query is not None:
            operation["description"] = inspect.getdoc(query)
        parameters = _parameters(query)
        if "{id}" in path:
            parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
        if parameters:
            operation["parameters"] = parameters
        if method == "put":
            operation["requestBody"] = {"required": True, "content": _json(schema_of[LogLevelChange])}
        paths.setdefault(path, {})[method] = operation
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


def _responses(method: str, path: str, answer: type | None, schema_of: dict[type, Any]) -> dict[str, Any]:
    refused = {
        "description": "The request is refused, with the reason.",
        "content": {"application/problem+json": {"schema": schema_of[ProblemDetails]}},
    }
    if method == "delete":
        return {"204": {"description": "The session is closed."}, "default": refused}
    done: dict[str, Any] = {"description": "The answer."}
    if answer is not None:
        done["content"] = _json(schema_of[answer])
    if path in ("/livez", "/readyz"):
        return {"200": done, "503": done, "default": refused}
    return {"200": done, "default": refused}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
