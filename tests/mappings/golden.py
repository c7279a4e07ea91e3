"""The golden frames of each dialect, one collection for what is asked of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct, inspect

from mappings.dialect import Direction
from tests.mappings.pando import data as pando_data
from tests.mappings.pando import test_directions as pando
from tests.mappings.pod import test_directions as pod
from tests.mappings.pod.data import CAPTURES, VECTORS, captured
from tests.mappings.smooth import test_directions as smooth

__all__ = ["GOLDEN", "documented", "said"]


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
"""What no other collection says."""


def _vectors(*directions: str) -> list[bytes]:
    return [row["canonical"].encode() for row in VECTORS if row["accept"] and row["direction"] in directions]


def _captured(way: str) -> list[bytes]:
    """What real pods and their clients said; the capture of bad lines is no golden one."""
    good = [path for path in CAPTURES if not path.stem.startswith("13-")]
    return list(dict.fromkeys(frame for path in good for _, to, frame in captured(path) if to == way and frame.strip()))


def _pando(*ways: str) -> list[bytes]:
    """What real primaries and their clients said; the capture of raw calls is no golden one."""
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


def _frames(cases: list[Any]) -> list[bytes]:
    return [json.dumps(case.values[0]["frame"]).encode() for case in cases]


GOLDEN: dict[tuple[str, str], list[bytes]] = {
    ("pod", "events"): [*_vectors("pod_to_client"), *_captured("s2c"), *pod.EVENTS, *POD_EVENTS],
    ("pod", "commands"): [*_vectors("client_to_pod"), *_captured("c2s"), *pod.METHODS],
    ("smooth", "events"): _frames(smooth.EVENTS) + SMOOTH_EVENTS,
    ("smooth", "commands"): _frames(smooth.ACTIONS),
    ("pando", "events"): [*_pando("pub", "rpc_reply", "s2c"), *pando.EVENTS],
    ("pando", "commands"): [*_pando("rpc_request", "c2s"), *pando.REQUESTS],
}
"""Dialect and direction -> frames that are canonical: every field that they do not omit stands in them."""


def said(value: Any) -> Iterator[str]:
    """`STRUCT.field` of each field that a message says, at any depth."""
    if isinstance(value, list):
        for member in value:
            yield from said(member)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            if inner is not None and inner is not UNSET:
                yield f"{type(value).__name__}.{name}"
                yield from said(inner)


def documented(direction: Direction) -> set[str]:
    """`STRUCT.field` of each field that any message of a direction may say."""
    found: set[str] = set()
    for kind in direction.to_canonical.entries:
        found |= set(_fields(inspect.type_info(kind)))
    return found


def _fields(shape: inspect.Type) -> Iterator[str]:
    match shape:
        case inspect.StructType():
            for field in shape.fields:
                yield f"{shape.cls.__name__}.{field.name}"
                yield from _fields(field.type)
        case inspect.UnionType():
            for member in shape.types:
                yield from _fields(member)
        case inspect.ListType() | inspect.VarTupleType():
            yield from _fields(shape.item_type)
