"""The memory of one recorder, counted by tracemalloc: what our lines of gateway/recording allocate."""

from __future__ import annotations

import gc
import tracemalloc

from dragoman.gateway import recording
from dragoman.gateway.recording.format import UP
from dragoman.gateway.recording.pending import FramesNote, TapPoint
from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.recording.recorded_session import RecorderHarness

COUNT = 20
PIECES = 40
STREAMS_MAX = (
    8_800  # bytes: 8,000 were measured; 11,300 with a dict for each object, with deques, and without shared texts
)
OURS = [f"{folder}/*" for folder in recording.__path__]
FROM_POD = TapPoint(UP, "receive", "pod")


def a_text_that_streams() -> RecorderHarness:
    """Return a recorder that has flushed some of a text."""
    harness = RecorderHarness()
    for number in range(2 * PIECES):
        text = f"word {number} "
        frame = b'{"event":"text_delta","data":{"text":"%b"}}' % text.encode()
        harness.recorder.step.append(FramesNote(FROM_POD, [frame]))
        harness.happens(TextDelta(text=text))
        if number % PIECES == PIECES - 1:
            harness.passes(1.5)
            harness.passes(0.1)
    return harness


def allocated() -> int:
    gc.collect()
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, pattern) for pattern in OURS])
    return sum(trace.size for trace in ours.traces)


def test_a_recorder_takes_little_memory_while_a_text_streams() -> None:
    kept = [a_text_that_streams()]  # the first one pays for patterns and tables
    tracemalloc.start()
    try:
        before = allocated()
        kept += [a_text_that_streams() for _ in range(COUNT)]
        size = (allocated() - before) / COUNT
    finally:
        tracemalloc.stop()
    assert all(harness.disk.files for harness in kept)
    assert STREAMS_MAX / 2 < size <= STREAMS_MAX
