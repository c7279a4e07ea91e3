"""Read and pass on W3C trace contexts (https://www.w3.org/TR/trace-context/).

    taken in    the headers `traceparent` and `tracestate` of a WebSocket handshake; the metadata of a session that a
                smooth or codewhale client opens, whose own context counts before that of its handshake
    passed out  the headers of the handshake with a WebSocket backend; the metadata of a session opened there

A context is passed on as it came, because the gateway is a participant only with OpenTelemetry. A malformed one is
ignored: it was never promised to be anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

import msgspec
from msgspec import UNSET, Raw, UnsetType

TraceContext = Mapping[str, str]
"""The headers `traceparent` and, if there is one, `tracestate`."""

PARENT = re.compile(r"([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.ASCII)
STATE_MAX = 512  # characters: what the specification asks everybody to pass on
PARENT_MAX = 128  # characters: a version to come may be longer than the 55 of today
METADATA_MAX = 64 * 1024  # bytes of metadata in which a context is looked for

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
OUTGOING: ContextVar[Mapping[str, str]] = ContextVar("OUTGOING", default=NO_HEADERS)
"""The headers with which the current task connects to a WebSocket backend: those of a trace context, and `Via`."""


def read_trace(headers: Mapping[str, object]) -> TraceContext | None:
    """Return the trace context in these headers, None if there is none or it is malformed."""
    parent, state = headers.get("traceparent"), headers.get("tracestate")
    if not isinstance(parent, str) or len(parent) > PARENT_MAX or not parent.isprintable():
        return None
    found = PARENT.fullmatch(parent)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[3]):
        return None
    if isinstance(state, str) and 0 < len(state) <= STATE_MAX and state.isascii() and state.isprintable():
        return {"traceparent": parent, "tracestate": state}
    return {"traceparent": parent}


def trace_id(trace: TraceContext | None) -> str:
    """Return the id of a trace, as logs have it; "" if there is none."""
    return trace["traceparent"][3:35] if trace is not None else ""


def trace_of_metadata(metadata: Raw | UnsetType) -> TraceContext | None:
    """Return the trace context in the metadata with which a client opens a session."""
    given = _decoded(metadata)
    return read_trace(given) if given else None


def add_trace(metadata: Raw | UnsetType, trace: TraceContext | None) -> Raw | UnsetType:
    """Return metadata with this trace context; metadata that is no object, or has one, stays as it is."""
    given = _decoded(metadata)
    if trace is None or given is None or "traceparent" in given:
        return metadata
    return Raw(msgspec.json.encode({**given, **trace}))


def _decoded(metadata: Raw | UnsetType) -> dict[str, object] | None:
    """Return metadata as an object; None if it is something else, or too large to look into."""
    if metadata is UNSET:
        return {}
    data = bytes(metadata)
    if len(data) > METADATA_MAX:
        return None
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None
