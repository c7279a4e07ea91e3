"""Cost in steps, never in time: the bytecodes of a piece of work, and the characters that it passes to
readers.

A regular expression or a search inside of C is one bytecode, however long its text is. So a test names the functions
that read all of a text, and each call of one of them counts its text.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Container
from types import FrameType
from typing import Any, SupportsIndex

GROWTH = 2.3  # times as many steps for twice the input: linear work has 2, with some that does not grow less


def count_steps(work: Callable[[], object], readers: Container[str] = ()) -> int:
    """Count the steps of `work`; `readers` are qualified names of functions that read their whole texts."""
    count = 0
    read: set[FrameType] = set()  # a generator is called again for each of its items

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "opcode":
            count += 1
        elif event == "call":
            frame.f_trace = trace  # from Python 3.13 on f_trace_opcodes means nothing before
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            if frame.f_code.co_qualname in readers and frame not in read:
                read.add(frame)
                count += sum(len(value) for value in frame.f_locals.values() if isinstance(value, str | bytes))
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # a collection runs finalizers of earlier tests, whose steps would count
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count


def growth(work: Callable[[Any], Callable[[], object]], inputs: list[Any], readers: Container[str] = ()) -> float:
    """Return the largest growth of the steps from one input to the next, which is twice as large. `work` prepares the
    work on one input. The first input is not counted, because it fills caches. If the code scans longer inputs
    twice, all other inputs must be longer than that size.
    """
    count_steps(work(inputs[0]), readers)  # Python 3.12 counts less the first time
    steps = [count_steps(work(given), readers) for given in inputs[1:]]
    return max(after / before for before, after in itertools.pairwise(steps))


class CopiedText(str):
    """A text that counts how often a part of it is copied, and a part of that."""

    __slots__ = ()
    copies = 0

    def __getitem__(self, place: SupportsIndex | slice) -> CopiedText:
        CopiedText.copies += 1
        return CopiedText(super().__getitem__(place))
