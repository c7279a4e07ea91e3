"""Golden frames of each dialect, in one collection for tests about all dialects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct, inspect

from dragoman.mappings.dialect import Direction
from tests.mappings.codewhale import data as codewhale_data
from tests.mappings.codewhale import test_directions as codewhale
from tests.mappings.pando import data as pando_data
from tests.mappings.pando import test_directions as pando
from tests.mappings.pod import test_directions as pod
from tests.mappings.pod.data import CAPTURES, VECTORS, captured
from tests.mappings.smooth import test_directions as smooth

POD_EVENTS = [
    b'{"event":"llm_continuation","data":{"llm_call":1,"attempt":2,"max_attempts":3,"reason":"r"}}',
    (
        b'{"event":"user_message","data":{"segments":[{"kind":"paste","id":1,"chars":2,"lines":1,"content":"ab"},'
        b'{"kind":"workflow_invoke","slug":"w"}]}}'
    ),
]
SMOOTH_EVENTS = [
    (
        b'{"type":"stream_chunk","requestId":"r","timestamp":1,"node":"n",'
        b'"data":{"requestId":"r","node":"n","state":{"pendingOtpVerification":{"a":1}}}}'
    )
]
"""Events that occur in no other collection of messages."""


def _vectors(*directions: str) -> list[bytes]:
    return [row["canonical"].encode() for row in VECTORS if row["accept"] and row["direction"] in directions]


def _captured(way: str) -> list[bytes]:
    """Return frames of real pods and their clients, without the capture of bad lines."""
    good = [path for path in CAPTURES if not path.stem.startswith("13-")]
    return list(dict.fromkeys(frame for path in good for _, to, frame in captured(path) if to == way and frame.strip()))


def _pando(*ways: str) -> list[bytes]:
    """Return frames of real primaries and their clients, without the capture of raw calls."""
    rows = [row for row in pando_data.VECTORS if ".bad." not in row["name"] and ".ok." not in row["name"]]
    said = [(row["kind"], row["frames"]) for row in rows]
    for path in pando_data.CAPTURES:
        if not path.stem.startswith("15-"):
            said += [(way, frames) for _, way, frames in pando_data.captured(path)]
    direction = pando_data.direction_of(ways[0])
    found = [pando_data.read_of(frames, direction) for way, frames in said if way in ways]
    return [frame for frame in dict.fromkeys(found) if frame not in PANDO_WRONG]


PANDO_WRONG = {
    frames[-1].encode()
    for path in pando_data.CAPTURES
    for _, way, frames in pando_data.captured(path)
    if way == "c2s" and frames[-1].endswith(('"params":{"session_id":5}}', '"params":[]}'))
}
"""Calls with params of a wrong type, which a primary refuses."""


def _codewhale(*, to_server: bool) -> list[bytes]:
    """Return frames of real servers and their clients, without refused requests and lines of another form."""
    rows = [row for row in codewhale_data.LINES if ".bad." not in row["name"] and ".positional_" not in row["name"]]
    said = [row["wire"] for row in rows if (row["direction"] == "client_to_server") is to_server]
    for path in codewhale_data.CAPTURES:
        if path.stem[:2] not in ("04", "06", "09"):
            said += [line for _, way, line in codewhale_data.captured(path) if (way == "c2s") is to_server]
    return [line.encode() for line in dict.fromkeys(said)]


def _frames(cases: list[Any]) -> list[bytes]:
    return [json.dumps(case["frame"]).encode() for case in cases]


GOLDEN: dict[tuple[str, str], list[bytes]] = {
    ("pod", "events"): [*_vectors("pod_to_client"), *_captured("s2c"), *pod.EVENTS, *POD_EVENTS],
    ("pod", "commands"): [*_vectors("client_to_pod"), *_captured("c2s"), *pod.METHODS],
    ("smooth", "events"): _frames(smooth.EVENTS) + SMOOTH_EVENTS,
    ("smooth", "commands"): _frames(smooth.ACTIONS),
    ("pando", "events"): [*_pando("pub", "rpc_reply", "s2c"), *pando.EVENTS],
    ("pando", "commands"): [*_pando("rpc_request", "c2s"), *pando.REQUESTS],
    ("codewhale", "events"): [*_codewhale(to_server=False), *codewhale.EVENTS],
    ("codewhale", "commands"): [*_codewhale(to_server=True), *codewhale.REQUESTS],
}
"""Dialect and direction -> frames that are canonical: every field that they do not omit stands in them."""


def said(value: Any) -> Iterator[str]:
    """Yield `STRUCT.key` of each field that a message has, at any depth."""
    if isinstance(value, list | tuple):
        for member in value:
            yield from said(member)
    elif isinstance(value, Struct):
        for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            inner = getattr(value, name)
            if inner is not None and inner is not UNSET:
                yield f"{type(value).__qualname__}.{key}"
                yield from said(inner)


def documented(direction: Direction[Any]) -> set[str]:
    """Return `STRUCT.key` of each field that any message of a direction may have."""
    found: set[str] = set()
    for kind in direction.to_canonical.entries:
        found |= set(fields_of(inspect.type_info(kind)))
    return found


def fields_of(shape: inspect.Type) -> Iterator[str]:
    """Yield `STRUCT.key` of each field inside of a type."""
    match shape:
        case inspect.StructType():
            for field in shape.fields:
                yield f"{shape.cls.__qualname__}.{field.encode_name}"
                yield from fields_of(field.type)
        case inspect.UnionType():
            for member in shape.types:
                yield from fields_of(member)
        case inspect.ListType() | inspect.VarTupleType():
            yield from fields_of(shape.item_type)
