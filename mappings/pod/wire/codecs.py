"""The codecs of pod: METHODS (client to pod) and EVENTS (pod to client), docs/dialects/pod.md, section 4.

Two legal spellings are rare, so they are rewritten only if the typed decoder refused the line. A message may be the
array `[name, content]`. A segment may have an unknown kind; it becomes a segment of the kind `unknown`.
"""

from __future__ import annotations

from typing import get_args

from dragoman.mappings.codec import Codec
from dragoman.mappings.pod.wire.events import Event, EventBase
from dragoman.mappings.pod.wire.methods import Method, MethodBase
from dragoman.mappings.pod.wire.values import Segment

MAX_DEPTH = 128  # serde_json's default: a deeper line is a parse error for every real peer

SEGMENT_KINDS = frozenset(segment.__struct_config__.tag for segment in get_args(Segment))


def known_segments(segments: object) -> None:
    """Replace segments of an unknown kind by the kind `unknown`, in place; leave all other values unchanged."""
    if not isinstance(segments, list):
        return
    for index, segment in enumerate(segments):
        if isinstance(segment, dict):
            kind = segment.get("kind")
            if isinstance(kind, str) and kind not in SEGMENT_KINDS:
                segments[index] = {"kind": "unknown"}


def _usual_form(value: object, tag: str, content: str, segments: str) -> object:
    if isinstance(value, list) and len(value) == 2:
        value = {tag: value[0], content: value[1]}
    if isinstance(value, dict):
        inner = value.get(content)
        if isinstance(inner, dict):
            known_segments(inner.get(segments))
    return value


def _usual_method(value: object) -> object:
    return _usual_form(value, "method", "params", "input")


def _usual_event(value: object) -> object:
    return _usual_form(value, "event", "data", "segments")


METHODS: Codec[MethodBase] = Codec(
    "pod", Method, max_depth=MAX_DEPTH, unique_keys=True, sorts_keys=True, reshape=_usual_method
)
EVENTS: Codec[EventBase] = Codec("pod", Event, max_depth=MAX_DEPTH, sorts_keys=True, reshape=_usual_event)
