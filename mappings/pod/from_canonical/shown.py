"""What a pod client is shown of a session when it attaches: the alerts, then one snapshot
(docs/dialects/pod.md, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.mappings.canonical.state import SessionState
from dragoman.mappings.canonical.values import Item, Message, Reasoning
from dragoman.mappings.pod.entries import canonical_items, made_entries, run_is_open, segment_start
from dragoman.mappings.pod.from_canonical.events import greeting, original
from dragoman.mappings.pod.wire import events as wire


def snapshot(state: SessionState) -> wire.Snapshot:
    """The session as a pod tells it: its true entries if it is a pod's, and entries for what came after."""
    entries = _true_entries(state)
    told = state.summed_up  # of what a summary stands for no item is told again
    if not told:
        items = canonical_items(entries)
        told = len(items)
        if not _begins_with(state.transcript, items):  # the history was cut or rewritten: the transcript is the truth
            entries, told = [], 0
    made = made_entries(
        state.transcript[told:],
        run_open=run_is_open(entries),
        running=state.turn is not None or state.status == "running",
        paused=state.status == "paused",
    )
    history = wire.History(entries=entries + made, greeting=greeting(state.backend), status=state.status)
    return wire.Snapshot(data=history)


def rotation(state: SessionState, at: int) -> wire.SegmentRotated:
    """The session for a client that had its one snapshot already."""
    entry = segment_start(state.id, state.transcript, at)
    return wire.SegmentRotated(data=wire.Rotation(entry=entry))


def _true_entries(state: SessionState) -> list[object]:
    ext = state.snapshot_ext
    if ext is not None and "pod.entry" in ext:
        return [original(ext, "pod.entry", object, None)]
    return original(ext, "pod.entries", list[object], [])


def _begins_with(transcript: Sequence[Item], told: Sequence[Item]) -> bool:
    """Whether `told` is how the transcript begins; ids and times may have been filled in since."""
    if len(transcript) < len(told):
        return False
    return all(_mark(a) == _mark(b) for a, b in zip(transcript, told, strict=False))


def _mark(item: Item) -> tuple[type, str]:
    return type(item), item.text if isinstance(item, Message | Reasoning) else item.call
