"""The description of the ops port and its document agree with what it serves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema

from tests.gateway.ops.running import operated

PAGE = (Path(__file__).parents[3] / "docs/operations.md").read_text("utf-8")
REQUEST = re.compile(r"`(GET|PUT|POST|DELETE) (/[\w./-]+)\??([^`]*)`")
Operations = dict[tuple[str, str], set[str]]


def documented() -> Operations:
    """Return the method and path of each request in docs/operations.md, with its parameters."""
    found: Operations = {}
    for method, path, query in REQUEST.findall(PAGE):
        names = {name.rstrip("=") for name in query.split("&") if name}
        found.setdefault((method.lower(), path.replace("/ID", "/{id}")), set()).update(names)
    return found


def described(document: dict[str, Any]) -> Operations:
    """Return the method and path of each request in an OpenAPI document, with its parameters."""
    return {
        (method, path): {row["name"] for row in one.get("parameters", ()) if row["in"] == "query"}
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }


async def test_each_operation_is_served_and_each_answer_has_its_described_form() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        assert described(document) == documented(), "docs/operations.md has not the requests that the port answers"
        for method, path in documented():
            status, text, _ = await port.ask_raw(path.replace("{id}", "none"), method.upper())
            assert "there is nothing at" not in text
            assert status != 405
        for path in ("/livez", "/readyz", "/sessions", "/links", "/routes", "/losses", "/config", "/log-level"):
            status, body = await port.ask(path)
            content = document["paths"][path]["get"]["responses"][str(status)]["content"]
            check(body, content["application/json"]["schema"], document)


async def test_the_parameters_of_a_list_are_described_with_their_types() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        schemas = {row["name"]: row["schema"] for row in document["paths"]["/sessions"]["get"]["parameters"]}
        assert schemas["limit"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
        assert set(schemas["state"]["enum"]) == {"", "idle", "paused", "running"}


async def test_the_limits_of_the_cursor_of_losses_are_described() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        assert "a row may be missing on a page, or be on two" in document["paths"]["/losses"]["get"]["description"]


def check(body: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(body)
