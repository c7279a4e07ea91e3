"""Readers and writers of the JSON in tool chunks and in the final answer (docs/dialects/smooth.md, section 4).

The schemas allow any JSON there. `arguments` of a call is a JSON string from server R, and an object from servers P and
T. `response` is in practice an object.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.mappings.extras import as_json


class Call(Struct, frozen=True):
    """A tool call of a chunk; `arguments` is JSON text. `usual` is True if `call_state` restores the same JSON."""

    name: str
    arguments: str
    usual: bool


class Result(Struct, frozen=True):
    """A tool result of a chunk. `usual` is True if `result_state` restores the same JSON."""

    name: str
    output: str
    is_error: bool
    usual: bool


def call_of(raw_response: object) -> Call | None:
    """Return the tool call in a chunk's `rawResponse`, or None."""
    call = raw_response.get("toolCall") if isinstance(raw_response, dict) else None
    if not isinstance(call, dict):
        return None
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str):
        return None
    text = arguments if isinstance(arguments, str) else as_json(arguments)
    return Call(name, text, raw_response == call_state(name, text))


def result_of(raw_response: object) -> Result | None:
    """Return the tool result in a chunk's `rawResponse`, or None."""
    result = raw_response.get("toolResult") if isinstance(raw_response, dict) else None
    if not isinstance(result, dict):
        return None
    name, output = result.get("name"), result.get("result", "")
    if not isinstance(name, str):
        return None
    text = output if isinstance(output, str) else as_json(output)
    is_error = result.get("isError") is True
    return Result(name, text, is_error, raw_response == result_state(name, text, is_error))


def call_state(name: str, arguments: str) -> dict[str, object]:
    """Return the `rawResponse` of a tool call, with `arguments` as a JSON string, as server R writes it."""
    return {"toolCall": {"name": name, "arguments": arguments}}


def result_state(name: str, output: str, is_error: bool) -> dict[str, object]:
    """Return the `rawResponse` of a tool result."""
    return {"toolResult": {"name": name, "isError": is_error, "result": output}}


def answer_of(text: str) -> dict[str, object]:
    """Return a `response` object with this text, and the scores that every reference server writes."""
    return {
        "responseParts": [text] if text else [],
        "customerHappinessScore": 0.5,
        "needsSatisfactionScore": 0.5,
        "requestSummary": "",
        "resolutionStatus": "in_progress",
        "suggestedNextActions": [],
    }


def text_of(response: object) -> str | None:
    """Return the visible text in a `response`; None if its structure is unknown."""
    if isinstance(response, str):
        return response
    parts = response.get("responseParts") if isinstance(response, dict) else None
    if not isinstance(parts, list):
        return None
    return "".join([part for part in parts if isinstance(part, str)])
