"""Descriptions of a session for pod clients: greeting, inspection, snapshot and rotation.

A client that attaches gets the alerts, then one snapshot (docs/dialects/pod.md, section 3). A client that already has
its snapshot gets a changed history as a rotation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import json

from dragoman.mappings.canonical.state import SessionState
from dragoman.mappings.canonical.values import BackendInfo, Ext, Item, Message, Reasoning, Status
from dragoman.mappings.pod.entries import canonical_items, made_entries, run_is_open, segment_start
from dragoman.mappings.pod.wire import events as wire

T = TypeVar("T")


def original(ext: Ext | None, field: str, shape: type[T], default: T) -> T:
    """Return the value that a pod sent for `field`, kept in `ext`; else `default`."""
    if ext is None or field not in ext:
        return default
    return json.decode(ext[field], type=shape)


def greeting(backend: BackendInfo) -> wire.Greeting:
    """Return the backend's description as a pod's greeting."""
    return wire.Greeting(
        pod_name=backend.name,
        cwd=backend.cwd,
        provider=backend.provider or "unknown",
        model=backend.model,
        scope_summary=original(backend.ext, "pod.scope_summary", str, ""),
        tools=list(backend.tools),
        context_window=original(backend.ext, "pod.context_window", int, 0),
        context_tokens=original(backend.ext, "pod.context_tokens", int, 0),
    )


def described(name: str, status: Status) -> dict[str, object]:
    """Return a session in the form of a pod's inspection, without a socket path: clients stay on this connection."""
    return {
        "pod_name": name,
        "visibility": "self_pod",
        "live": {"socket_path": "", "reachable": True, "status": status},
        "restore": {"possible": False, "reason": "sessions of a gateway are not restored by name"},
        "spawned_children": {"count": 0, "reachable": 0, "unreachable": 0},
    }


def snapshot(state: SessionState) -> wire.Snapshot:
    """Return the session as a snapshot: a pod's own entries, then entries made for the items after them."""
    entries = _own_entries(state)
    sent = state.summed_up  # the summary replaces this many items, which are not sent again
    if not sent:
        items = canonical_items(entries)
        sent = len(items)
        if not _begins_with(state.transcript, items):  # the history was cut or rewritten, so use the transcript
            entries, sent = [], 0
    made = made_entries(
        state.transcript[sent:],
        run_open=run_is_open(entries),
        running=state.turn is not None or state.status == "running",
        paused=state.status == "paused",
    )
    history = wire.History(entries=entries + made, greeting=greeting(state.backend), status=state.status)
    return wire.Snapshot(data=history)


def rotation(state: SessionState, at: int) -> wire.SegmentRotated:
    """Return the session as a rotation, for a client that already has its snapshot."""
    entry = segment_start(state.id, state.transcript, at)
    return wire.SegmentRotated(data=wire.Rotation(entry=entry))


def _own_entries(state: SessionState) -> list[object]:
    ext = state.snapshot_ext
    if ext is not None and "pod.entry" in ext:
        return [original(ext, "pod.entry", object, None)]
    return original(ext, "pod.entries", list[object], [])


def _begins_with(transcript: Sequence[Item], beginning: Sequence[Item]) -> bool:
    """Return True if the transcript begins so. Ids and times are ignored, because the session adds them."""
    if len(transcript) < len(beginning):
        return False
    return all(_mark(a) == _mark(b) for a, b in zip(transcript, beginning, strict=False))


def _mark(item: Item) -> tuple[type, str]:
    return type(item), item.text if isinstance(item, Message | Reasoning) else item.call
