"""The stderr of a child process: read at all times, logged at debug level, and its last lines kept.

If nobody read stderr, the child would block once its pipe is full. The last lines are kept because an error message
must be able to say why the backend is gone. A read of 64 KiB may have 32,768 lines, so only the last ones of a read are
looked at.
"""

from __future__ import annotations

import re
import string
from collections import deque

import structlog

from dragoman.adapters.lines import LineSplitter
from dragoman.adapters.stdio.ends import REST, File, ReadEnd
from dragoman.mappings.dialect import Frame, Oversize

TAIL_LINES = 5  # lines in an error message: the end of most stack traces, and still one log line
LINES_OF_READ = 128  # lines of one read that are logged: most backtraces have fewer, and so many take 1 ms
LINE_SIZE = 200  # characters of one line in logs and error messages
WORD = string.ascii_letters + string.digits + "_+/=.~-"  # the characters of keys, tokens and base64

KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----\s*\Z")
KEY_LINE = re.compile(rb"\s*(?:[A-Za-z0-9+/=]*|(?:Proc-Type|DEK-Info): .*)\s*")  # base64, or a header of the key

log = structlog.get_logger("dragoman.child")


class StderrTail:
    """The stderr of one child; keeps at most `most` bytes of its last lines."""

    def __init__(self, file: File, most: int, *, pid: int) -> None:
        self._most = most
        self._splitter = LineSplitter(most)
        self._lines: deque[bytes] = deque()
        self._size = 0  # bytes of those lines
        self._in_key = False  # the lines of a private key follow
        self._log = log.bind(pid=pid)
        self._end = ReadEnd(file, self._take, self._ended)
        self._end.resume()

    def text(self) -> str:
        """Return the last lines joined with ` / `, or an empty string."""
        return " / ".join(_printable(line) for line in list(self._lines)[-TAIL_LINES:])

    def finish(self) -> None:
        """Read the rest of the output after the child has exited, without waiting for processes that inherited its
        stderr.
        """
        for _ in range(REST):
            if self._end.closed or not self._end.read():
                break
        self._keep(self._splitter.finish())

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._end.close()

    def _take(self, data: bytes) -> None:
        lines = data.count(b"\n")
        if lines > LINES_OF_READ:
            self._log.debug("lines of the stderr of a child are left out", count=lines - LINES_OF_READ)
            self._splitter.finish()  # the line that an earlier read began is the first of them
            data = b"\n".join(data.rsplit(b"\n", LINES_OF_READ + 1)[1:])
        self._keep(self._splitter.feed(data))

    def _ended(self) -> None:
        self._keep(self._splitter.finish())

    def _keep(self, frames: list[Frame]) -> None:
        for frame in frames:
            line = frame if isinstance(frame, bytes) else _notice_of(frame)
            if self._is_in_key(line):
                continue
            self._log.debug("stderr of child", line=_printable(line))
            self._lines.append(line)
            self._size += len(line)
        while self._size > self._most:
            self._size -= len(self._lines.popleft())

    def _is_in_key(self, line: bytes) -> bool:
        """Return True for a line within a private key (PEM), which alone looks like no secret."""
        if self._in_key and KEY_LINE.fullmatch(line) is not None:
            return True
        self._in_key = KEY_BEGIN.search(line) is not None
        return False


def _printable(line: bytes) -> str:
    """Return the beginning of a line.

    A word that the cut divides is left out: half of a secret would not be recognised as one.
    """
    whole = line[: 4 * LINE_SIZE].decode(errors="replace")
    text = whole if len(whole) <= LINE_SIZE else f"{whole[:LINE_SIZE].rstrip(WORD)}…"
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _notice_of(frame: Frame) -> bytes:
    return b"(a line of %d bytes)" % frame.size if isinstance(frame, Oversize) else b""
