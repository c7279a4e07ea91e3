"""Tables of codewhale: generations, methods, causes and ends (docs/dialects/codewhale.md, sections 1.2, 2 and 3)."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, get_args

from dragoman.mappings.canonical.values import Cause
from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.extras import Extras
from dragoman.mappings.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, NO_METHOD, PARSE_ERROR

EXTRAS = Extras("codewhale")
keep, carried, given = EXTRAS.keep, EXTRAS.carried, EXTRAS.given

HEAD, SEED = "0.9.10", "0.8.59"
GENERATIONS = (HEAD, SEED)
"""The generations that we speak; the first is the default."""

FAILED = -32603
NOT_FOUND = -32004
"""The error code for an unknown thread: of `thread/resume` and `thread/fork` since 0.9.4, of inputs since 0.10.2."""

UNAVAILABLE = -32005
"""The error code `runtime_unavailable`, since 0.10.2: nothing ran, for example because the thread has pending work."""

INPUT_REFUSALS = frozenset((INVALID_PARAMS, NOT_FOUND, UNAVAILABLE))
"""The error codes with which servers refuse an input; every turn that fails later has FAILED."""

NEW = "New conversation"
"""The preview of a thread without messages."""

UNLOADED = "Thread execution settings changed while preparing the turn; retry"
"""A part of the error text for an input to a thread that a 0.10.2 had unloaded: the next input works."""

UNKNOWN_THREAD = "thread not found"
INTERRUPTED = "turn interrupted"
CANCELLED = frozenset((INTERRUPTED, "turn canceled"))
"""Error texts of a turn that was cancelled and did not fail (docs/translation.md, rule 3.6)."""

CODE_OF_CAUSE: dict[Cause, int] = dict.fromkeys(get_args(Cause), FAILED) | {
    "invalid": INVALID_PARAMS,
    "unsupported": NO_METHOD,
}

CAUSE_OF_CODE: dict[int, Cause] = {
    PARSE_ERROR: "invalid",
    INVALID_REQUEST: "invalid",
    NO_METHOD: "unsupported",
    INVALID_PARAMS: "invalid",
    NOT_FOUND: "not_found",
    UNAVAILABLE: "busy",
}

WORDS: tuple[tuple[str, Cause], ...] = (
    ("not found", "not_found"),
    ("failed to query thread", "not_found"),
    ("already in progress", "busy"),
    ("not sent: ", "busy"),
    ("runtime event stream ended", "upstream_lost"),
)
"""Parts of an error's text -> the cause; the code is the same for all causes."""

BEGINNING = 4096  # characters of an error's text in which these are looked for: in 14 MiB that would take 55 ms

MODEL_WORDS: tuple[tuple[str, Cause], ...] = (
    ("Rate limit exceeded: ", "rate_limited"),
    ("Provider plan quota exhausted: ", "rate_limited"),
    *(
        (words, "model_failed")
        for words in (
            "Authentication failed: ",
            "Authorization failed: ",
            "Content policy violation: ",
            "Context is still above ",
            "Context length exceeded: ",
            "Invalid request (",
            "LLM error: ",
            "Model answered only ",
            "Model error: ",
            "Model reached ",
            "Model returned ",
            "Model stream ended ",
            "Network error: ",
            "Provider stream ",
            "Request timed out after ",
            "Response parsing error: ",
            "Server error (",
            "The request still exceeds ",
        )
    ),
)
"""Beginnings of an error's text, which quote the response of the model's provider -> the cause."""

REFUSED = re.compile(r"runtime API returned (\d{3}) ")
CAUSE_OF_STATUS: dict[str, Cause] = {
    "400": "invalid",
    "404": "not_found",
    "409": "busy",
    "413": "too_large",
    "422": "invalid",
    "429": "rate_limited",
}
"""The HTTP status with which the runtime of a server refused a turn -> the cause."""


def cause_of(code: int, text: str) -> Cause:
    """Return the cause for an error's code and text."""
    if code in CAUSE_OF_CODE:
        return CAUSE_OF_CODE[code]
    refused = REFUSED.match(text)
    if refused is not None:
        return CAUSE_OF_STATUS.get(refused[1], "upstream_lost")
    of_model = (cause for words, cause in MODEL_WORDS if text.startswith(words))
    beginning = text[:BEGINNING]
    return next(chain(of_model, (cause for words, cause in WORDS if words in beginning)), "internal")


LATER = "0.10.2"
"""A release whose clients we serve as HEAD, except for requests about unknown threads."""

TURN_OPTIONS: dict[str, Any] = {
    "allowed_tools": list[str],
    "max_output_tokens": int,
    "max_output_tokens_alias": int,
}
"""Options of one input or prompt, which `ext` has under the names of their fields -> their type."""

ECHOED = ("approval_policy", "sandbox")
"""Settings of a resume that a server repeats in its result."""

CAPABILITIES: dict[str, type[requests.RequestBase]] = {
    "": requests.Capabilities,
    "thread": requests.ThreadCapabilities,
    "app": requests.AppCapabilities,
    "prompt": requests.PromptCapabilities,
}
"""The subject of a GetCapabilities, which `ext` has as `kind` -> the request."""


# -- capabilities of a server -----------------------------------------------------------------------

THREADS = (
    "request",
    "create",
    "start",
    "resume",
    "fork",
    "list",
    "read",
    "set_name",
    "goal/set",
    "goal/get",
    "goal/clear",
    "archive",
    "unarchive",
    "message",
)
CONFIG = ("get", "set", "unset", "list")
PROMPT_METHODS = ("prompt/request", "prompt/run")


def thread_methods(generation: str) -> list[str]:
    """Return the methods that `thread/capabilities` lists."""
    known = [f"thread/{name}" for name in THREADS]
    return known if generation == SEED else [*known, "thread/interrupt"]


def methods(generation: str) -> list[str]:
    """Return the methods that `capabilities` lists, in their fixed order."""
    config = CONFIG if generation == SEED else (*CONFIG, "reload")
    return [
        "healthz",
        "thread/capabilities",
        *thread_methods(generation),
        "app/capabilities",
        "app/request",
        *(f"app/config/{name}" for name in config),
        "app/models",
        "app/thread_loaded_list",
        "prompt/capabilities",
        *PROMPT_METHODS,
        "shutdown",
    ]


def app_facts(generation: str) -> dict[str, object]:
    """Return the `data` of `app/capabilities`."""
    return {
        "routes": ["/thread", "/app", "/prompt", "/tool", "/jobs", "/mcp/startup"],
        "config": list(CONFIG if generation == SEED else (*CONFIG, "reload")),
        "events": [
            "response_start",
            "response_delta",
            "response_end",
            "tool_call_start",
            "tool_call_result",
            "mcp_startup_update",
            "mcp_startup_complete",
        ],
        "transport": "stdio+http",
        "config_path": None,
    }
