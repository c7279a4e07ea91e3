"""The description of the ops port agrees with what it serves."""

from __future__ import annotations

from typing import Any

import jsonschema

from tests.gateway.ops.running import operated

OPERATIONS = {
    "/livez": ["get"],
    "/readyz": ["get"],
    "/metrics": ["get"],
    "/sessions": ["get"],
    "/sessions/{id}": ["delete", "get"],
    "/sessions/{id}/detach": ["post"],
    "/links": ["get"],
    "/routes": ["get"],
    "/losses": ["get"],
    "/config": ["get"],
    "/log-level": ["get", "put"],
    "/openapi.json": ["get"],
}
"""The methods of each path, as docs/operations.md has them."""


async def test_each_operation_is_served_and_each_answer_has_its_described_form() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        assert {path: sorted(methods) for path, methods in document["paths"].items()} == OPERATIONS
        for path, methods in OPERATIONS.items():
            for method in methods:
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
        described = {row["name"]: row["schema"] for row in document["paths"]["/sessions"]["get"]["parameters"]}
        assert described["limit"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
        assert set(described["state"]["enum"]) == {"", "idle", "paused", "running"}


async def test_the_limits_of_the_cursor_of_losses_are_described() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        assert "a row may be missing on a page, or be on two" in document["paths"]["/losses"]["get"]["description"]


def check(body: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(body)
