"""Descriptions of a session for pod clients: greeting, snapshot, rotation and inspection.

A client that attaches gets the alerts, then one snapshot (docs/dialects/pod.md, section 3). A client that already has
its snapshot gets a changed history as a rotation.

A snapshot is one line, which may have 16 MiB and take 50 ms to render. So it is rendered in slices, between which other
work is done, and kept in the state. All clients that join before the session changes are shown the same line. Items
that are added between two slices are rendered too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from operator import eq, is_

from msgspec import DecodeError, Raw, json

from dragoman.mappings.canonical.state import RenderedHistory, SessionState
from dragoman.mappings.canonical.values import BackendInfo, Item, Status, content_of
from dragoman.mappings.pod.entries import LoggedConversation, MadeLog, segment_start
from dragoman.mappings.pod.vocabulary import carried, given
from dragoman.mappings.pod.wire import events as wire
from dragoman.mappings.pod.wire.codecs import EVENTS

SLICE = 64 * 1024  # work (units) of one slice: about 0.4 ms
ENTRY = 512  # units of an entry beside its bytes: about 4 us to read and to write it
KEY = "pod"
BEGIN = b'{"event":"snapshot","data":{"entries":['


def greeting(backend: BackendInfo) -> wire.Greeting:
    """Return the backend's description as a pod's greeting."""
    return wire.Greeting(
        pod_name=backend.name,
        cwd=backend.cwd,
        provider=backend.provider or "unknown",
        model=backend.model,
        scope_summary=given(backend.ext, "scope_summary", str, ""),
        tools=list(backend.tools),
        context_window=given(backend.ext, "context_window", int, 0),
        context_tokens=given(backend.ext, "context_tokens", int, 0),
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


def rotation(state: SessionState, at: int) -> wire.SegmentRotated:
    """Return the session as a rotation, for a client that already has its snapshot."""
    entry = segment_start(state.conversation or state.id, state.transcript, at)
    return wire.SegmentRotated(data=wire.SegmentRotated.Data(entry=entry))


def snapshot_line(state: SessionState) -> bytes:
    """Return the session as a snapshot. Render the part that was not rendered in slices."""
    for _size in render_snapshot(state):
        pass
    return state.rendered[KEY].frame


def render_snapshot(state: SessionState) -> Iterator[int]:
    """Render the snapshot in slices, and keep it in the state; yield the work (units) of each slice.

    If the backend rewrote the history between two slices, nothing is kept.
    """
    if _is_current(state):
        return
    writer = _SnapshotWriter(state)
    yield from writer.add_own_entries()
    yield from writer.add_ended_turns()
    line = writer.finish()
    if line is not None:
        state.rendered[KEY] = RenderedHistory(frame=line, sources=_sources(state))


def _sources(state: SessionState) -> tuple[object, ...]:
    """Return the values in the snapshot. Objects are compared by identity, the facts at the end by value."""
    transcript = state.transcript
    ends = (transcript[0], transcript[-1]) if transcript else ()
    facts = (len(transcript), state.summed_up, state.status, state.turn is None)
    return (transcript, state.snapshot_ext, state.backend, *ends, facts)


def _is_current(state: SessionState) -> bool:
    """Return True if the kept snapshot shows the session as it is now."""
    kept = state.rendered.get(KEY)
    if kept is None:
        return False
    (*then, facts), (*now, facts_now) = kept.sources, _sources(state)
    return facts == facts_now and all(map(is_, then, now))


class _Line:
    """A snapshot as it is written, entry by entry. To join the entries at the end would take 10 ms in one step."""

    def __init__(self) -> None:
        self._buffer = BytesIO()
        self._is_empty = True

    def add(self, entries: Iterable[object]) -> int:
        """Add entries; return the work (units) that they took."""
        work = 0
        for entry in entries:
            self._buffer.write(BEGIN if self._is_empty else b",")
            work += ENTRY + self._buffer.write(EVENTS.encode(entry))
            self._is_empty = False
        return work

    def end(self, history: wire.Snapshot.Data) -> bytes:
        """Return the line, given the history without its entries."""
        whole = EVENTS.encode(wire.Snapshot(data=history))
        self._buffer.write(whole.removeprefix(b"" if self._is_empty else BEGIN))
        return self._buffer.getvalue()  # the buffer's own bytes, without a copy


class _SnapshotWriter:
    """Writes the snapshot of one session: a pod's own entries, then entries made for the items after them."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._ext = state.snapshot_ext
        self._line = _Line()
        self._made = MadeLog()
        self._last: Item | None = None  # the last item that is written

    def add_own_entries(self) -> Iterator[int]:
        """Add the pod's own entries, unless its history was cut or rewritten since; yield the work of each slice."""
        line, logged, work = _Line(), LoggedConversation(), 0
        for raw in _own_entries(self._state):
            logged.add_entry(raw)
            try:
                work += line.add((json.decode(raw),))
            except DecodeError:  # a number that is out of range
                return
            if work >= SLICE:
                yield work
                work = 0
        transcript = self._state.transcript
        sent = self._state.summed_up  # the summary replaces this many items, which are not sent again
        if not sent and _begins_with(transcript, logged.items):
            sent = len(logged.items)
        elif not sent:
            return
        self._line, self._made = line, MadeLog(run_open=logged.run_open)
        self._last = next(iter(transcript[sent - 1 : sent]), None)

    def add_ended_turns(self) -> Iterator[int]:
        """Add the items that no open turn can replace by others; yield the work of each slice."""
        work = 0
        while items := self._further_items(self._state.transcript[: self._state.fresh]):
            for item in items:
                work += self._add_item(item)
                if work >= SLICE:
                    yield work
                    work = 0

    def finish(self) -> bytes | None:
        """Add the other items and return the line; None if the history was rewritten meanwhile."""
        state = self._state
        items = self._further_items(state.transcript)
        if items is None or state.snapshot_ext is not self._ext:
            return None
        for item in items:
            self._add_item(item)
        running = state.turn is not None or state.status == "running"
        self._line.add(self._made.end(running=running, paused=state.status == "paused"))
        return self._line.end(wire.Snapshot.Data(entries=[], greeting=greeting(state.backend), status=state.status))

    def _further_items(self, items: Sequence[Item]) -> Sequence[Item] | None:
        """Return the items after the last written one; None if that one was removed."""
        if self._last is None:
            return items
        for place in range(len(items), 0, -1):
            if items[place - 1] is self._last:
                return items[place:]
        return None

    def _add_item(self, item: Item) -> int:
        """Add the entries of an item; return the work (units) that they took."""
        self._last = item
        return self._line.add(self._made.add_item(item))


def _own_entries(state: SessionState) -> list[Raw]:
    entry = carried(state.snapshot_ext, "entry")
    return given(state.snapshot_ext, "entries", list[Raw], []) if entry is None else [entry]


def _begins_with(transcript: Sequence[Item], beginning: Sequence[Item]) -> bool:
    """Return True if `transcript` begins with the items of `beginning`.

    Ids and times are ignored, because the session adds them.
    """
    if len(transcript) < len(beginning):
        return False
    return all(map(eq, map(content_of, transcript), map(content_of, beginning)))
