"""Describe the ops port as an OpenAPI document, made of the types of its answers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from dragoman import __version__
from dragoman.gateway.ops.admin import LogLevelChange, Operation
from dragoman.gateway.ops.guard import ProblemDetails


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
