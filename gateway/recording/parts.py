"""Write the files of one recording, part by part, and survive a disk that is full or slow.

When the writer cannot take or keep bytes, the session is *not recorded*: one error says so, the lost items are counted,
and after RETRY a further part begins, whose header says how many items are missing. After `rotate_bytes` a further part
begins as well.

If recordings go to one file, the first session with an input gets its name. So the lines of a session wait for its
first input, for its end, or until they have EARLY_MAX bytes. They count as memory, and are written when memory is
short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import structlog
from msgspec import structs

from dragoman.adapters.meter import Meter
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.recording.format import Header, encode
from dragoman.gateway.recording.recordings import Recordings
from dragoman.gateway.recording.writer import OutputFile

EARLY_MAX = 8 << 20  # bytes that wait for the first input
RETRY = 30.0  # seconds until a disk that was full is tried again

log = structlog.get_logger("dragoman.recording")


class RecordingParts:
    """Writes the encoded lines of one recording to its files."""

    __slots__ = (
        "_again_at",
        "_bytes",
        "_early",
        "_early_items",
        "_file",
        "_has_input",
        "_items",
        "_lost",
        "_lost_before",
        "_meter",
        "_monotonic",
        "_part",
        "_public_ids",
        "_recordings",
        "_stem",
        "header",
    )

    def __init__(
        self,
        recordings: Recordings,
        header: Header,
        *,
        public_ids: Callable[[], list[str]],
        monotonic: Callable[[], int],
    ) -> None:
        self.header = header
        self._public_ids = public_ids
        self._recordings = recordings
        self._monotonic = monotonic
        self._part = 0
        self._file: OutputFile | None = None
        self._bytes = 0  # bytes given to this file
        self._items = 0  # items given to this file
        self._lost = 0
        self._lost_before = 0  # lost items that the header of this file counts
        self._again_at = 0
        self._has_input = False
        self._stem = ""  # the beginning of the names of its files: known when the thread creates the first one
        self._early = bytearray() if recordings.writer.place.prefers_inputs and header.session else None
        self._early_items = 0
        self._meter = Meter()  # counts the bytes that wait

    def take_input(self) -> None:
        """Note that the session has an input, for the name of its file."""
        if not self._has_input:
            self._has_input = True
            self._give_early()

    def name(self, session: str) -> None:
        """Set the id of the session, unless a part has begun: all parts have the same id, so that they are found."""
        if not self._part:
            self.header = structs.replace(self.header, session=session)

    def write(self, seq: int, count: int, data: bytes) -> None:
        """Write `count` items from the number `seq`, and begin a part if none is open."""
        if self._file is None and not self._begin(seq):
            self._lose(count)
            return
        self._give(data, count)

    def fail(self, cause: str, count: int) -> None:
        """Stop recording for RETRY seconds, unless it is stopped already; `count` items are lost."""
        if self._is_stopped:
            self._lose(count)
            return
        self.close()
        self._stop(cause, count)

    def close(self) -> None:
        """Close the file that is open."""
        self._give_early()
        if self._file is not None:
            self._recordings.writer.finish(self._file)

    @property
    def _is_stopped(self) -> bool:
        """True for RETRY seconds after a failure."""
        return self._file is None and self._monotonic() < self._again_at

    def _begin(self, seq: int) -> bool:
        """Begin the next part. Return False while it is too early to try again."""
        if self._is_stopped:
            return False
        shown_as = [name for name in self._public_ids() if name != self.header.session]
        header = structs.replace(self.header, part=self._part, seq=seq, lost=self._lost, shown_as=shown_as)
        self._file = OutputFile(partial(self._names, self._part), self._failed)
        self._bytes = self._items = 0
        self._part += 1
        self._lost_before, self._lost, self._again_at = self._lost, 0, 0
        self._give(encode(header) + b"\n", 0)
        return self._file is not None

    def _names(self, part: int) -> Iterator[Path]:
        header, place = self.header, self._recordings.writer.place
        if not self._stem:
            self._stem = place.stem(header.session, header.started_at, route=header.route, has_input=self._has_input)
        return place.names(self._stem, part)

    def _give_early(self) -> None:
        """Pass the lines that waited for the first input to the writer."""
        early, self._early = self._early, None
        self._recordings.memory.release(self._meter)
        if early:
            self._give(bytes(early), self._early_items)

    def _give(self, data: bytes, count: int) -> None:
        file = self._file
        if file is None:
            return
        if self._early is not None:
            if not self._early:
                self._recordings.memory.watch(self._meter, self._give_early)
            self._early += data
            self._early_items += count
            self._meter.add(len(data))  # which may give the writer all of them
            if len(self._early or ()) > EARLY_MAX:
                self._give_early()
            return
        if not self._recordings.writer.put(file, data, count):
            self._recordings.ledger.counters["recordings_overflowed"] += 1
            self.fail("the disk does not keep up", count)
            return
        self._bytes += len(data)
        self._items += count
        if self._items and 0 < self._recordings.writer.rotate_bytes <= self._bytes:
            self._recordings.writer.finish(file)
            self._file = None

    def _failed(self, file: OutputFile, error: OSError) -> None:
        """Handle a file that the writer could not write."""
        if file is not self._file:
            self._recordings.ledger.counters["recordings_failed"] += 1
            log.error("the end of a part of a recording is lost", session=self.header.session, cause=full_reason(error))
            return
        if not file.size:  # it was never created
            self._part -= 1
            self._lost += self._lost_before
        self._stop(full_reason(error), self._items - file.lines)

    def _stop(self, cause: str, count: int) -> None:
        self._file = None
        self._again_at = self._monotonic() + int(RETRY * 1e9)
        self._lose(count)
        self._recordings.ledger.counters["recordings_failed"] += 1
        log.error(
            "the session is not recorded; dragoman tries again later",
            session=self.header.session,
            cause=cause,
            seconds=RETRY,
            traffic="goes on",
        )

    def _lose(self, count: int) -> None:
        self._lost += count
        self._recordings.ledger.counters["recording_items_lost"] += count
