"""A bounded queue of log lines, and the thread that writes them: logging never waits for the reader.

    put(line) ---> lines (at most LINES_MAX, BYTES_MAX) ---> thread: os.write(descriptor)
                     full: the line is dropped and counted      after a write that succeeded: report(dropped)

A supervisor or an editor that starts a gateway may never read its stderr. Once the pipe is full the thread waits in
`write`, further lines are dropped, and the gateway goes on. `flush` has a deadline, so that the end comes too.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

LINES_MAX = 4096  # ten seconds of a busy gateway that logs each connection
BYTES_MAX = 1024 * 1024  # bytes of the queued lines: a few with large tracebacks must not fill the memory
PIECE = 4096  # bytes of one write: what a pipe takes without mixing it with the lines of other processes
FLUSH_DEADLINE = 1.0  # seconds to write the rest at the end: a reader takes milliseconds


class LogQueue:
    """Writes lines to a descriptor from a thread of its own, which begins with the first line.

    `report` makes the line that says how many lines were dropped, in the thread. If the system refuses the thread,
    `put` writes each line itself, and waits for the reader.
    """

    def __init__(self, descriptor: int, report: Callable[[int], str]) -> None:
        self.report = report
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._size = 0  # bytes of those lines
        self._dropped = 0
        self._writing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Queue one line, without its newline; drop and count it if too much waits already."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._changed:
            if len(self._lines) >= LINES_MAX or self._size + len(data) > BYTES_MAX:
                self._dropped += 1
                return
            if self._thread is None or not self._thread.is_alive():  # a fork leaves the thread behind
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the limit of processes is reached: the line may be the error that says so
                    self._write(data)
                    return
            self._append(data)
            self._changed.notify_all()

    def flush(self, deadline: float = FLUSH_DEADLINE) -> bool:
        """Wait until everything is written, at most `deadline` seconds; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._lines or self._writing), deadline)

    # -- the thread --------------------------------------------------------------------------------------

    def _append(self, data: bytes) -> None:
        self._lines.append(data)
        self._size += len(data)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                self._writing = True
                piece = self._take()
            if self._write(piece):
                self._report_dropped()

    def _take(self) -> bytes:
        """Take the next lines off the queue, about as many as one write holds."""
        taken = [self._lines.popleft()]
        size = len(taken[0])
        while self._lines and size + len(self._lines[0]) <= PIECE:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        self._size -= size
        return b"".join(taken)

    def _write(self, piece: bytes) -> bool:
        """Write all of it, however long that takes; return False if the reader has closed the pipe."""
        rest = memoryview(piece)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process made the shared pipe or terminal non-blocking
                select.select((), (self._descriptor,), ())
            except OSError:
                return False
        return True

    def _report_dropped(self) -> None:
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            line = self.report(dropped)
            with self._changed:
                self._append(line.encode("utf-8", "backslashreplace") + b"\n")
