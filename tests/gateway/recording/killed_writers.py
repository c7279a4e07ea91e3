"""A program that forks a writer of recordings for each path on its stdin and kills it later.

It answers with the writer's process id. A writer says on stderr, one number a line, how many lines were just synced.
Its system takes a few bytes at a time, so that it is killed in the middle of lines too.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dragoman.gateway.observability import logs
from dragoman.gateway.recording.format import encode, encode_lines, packed
from dragoman.gateway.recording.places import OneFile
from dragoman.gateway.recording.writer import OutputFile, Writer
from tests.gateway.recording.lines import HEADER, PLAIN, numbered

BATCH = 7
LINES = numbered(7000, text="word " * 10)


def write(path: Path) -> None:
    place = OneFile(path)
    writer = Writer(place, lambda call: call(), PLAIN, backlog_max=4 * BATCH * 250)  # so that it syncs often
    file = OutputFile(lambda: place.names(place.stem("s", 0), 0), lambda _file, error: os.abort())
    real, write_all, chance = os.fsync, os.write, random.Random(path.name)

    def fsync(descriptor: Any) -> None:
        lines = file.lines
        real(descriptor)
        if descriptor == file.descriptor:
            write_all(2, b"%d\n" % lines)

    def write_some(descriptor: int, data: bytes) -> int:
        return write_all(descriptor, data[: chance.randint(1, 200)])

    patch.object(os, "fsync", fsync).start()
    patch.object(os, "write", write_some).start()
    writer.start()
    writer.put(file, encode(HEADER) + b"\n", 0)
    start = 0
    while some := LINES[start : start + chance.randint(1, BATCH)]:
        start += len(some)
        while not writer.put(file, encode_lines(packed(some)), len(some)):
            writer.flush()
    sys.exit("nobody killed it")


def main() -> None:
    logs.configure("error")
    sys.setswitchinterval(1e-4)  # its two threads take turns often
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            write(Path(line.strip()))
        os.write(1, b"%d\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"over\n")


if __name__ == "__main__":
    main()
