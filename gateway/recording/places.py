"""Where recordings go: a folder with a file for each session, or one file and what more there is beside it.

In a folder a name is the start of the session and its id, so that names sort by time. A part after a rotation has its
number before the suffix. No file is ever written to twice: a name that is taken gets `~2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from dragoman.mappings.errors import ConfigError

__all__ = ["OURS", "ZST", "Folder", "OneFile", "Place", "has_recording_name", "part_names", "place", "siblings"]

SUFFIX = ".jsonl"
ZST = ".zst"  # behind it, of a compressed file
OURS = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9._~-]*\.jsonl(\.zst)?")
"""The names that a folder gives. Nothing else in it is ever compressed or deleted."""

UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
AGAIN = re.compile(r"~\d+$")
NAME_MAX = 80  # characters of an id that go into a name; file systems take 255 in all


class Folder:
    """A folder that belongs to the gateway."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, session: str, started_at: int, part: int) -> Iterator[Path]:
        """Names for this part of a recording, the best one first. `session` may be anything."""
        start = datetime.fromtimestamp(started_at / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
        yield from _numbered(self.path, f"{start}-{_safe(session)}", part, SUFFIX)


class OneFile:
    """One file: it is the first session's, and the others stand beside it as `NAME-2`, `NAME-3` ..."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sessions: list[str] = []

    def names(self, session: str, started_at: int, part: int) -> Iterator[Path]:  # as Folder
        """Names for this part of a recording, the best one first."""
        if session not in self._sessions:
            self._sessions.append(session)
        number = self._sessions.index(session) + 1
        stem = self.path.stem if number == 1 else f"{self.path.stem}-{number}"
        yield from _numbered(self.path.parent, stem, part, self.path.suffix)


Place = Folder | OneFile


def place(text: str) -> Place:
    """What `--record` and `[recording]` name: a folder if it is one, ends in `/` or has no suffix; else a new file.

    ConfigError for a file that exists: a recording is never overwritten. And for one that is named as if compressed:
    what is being written is plain.
    """
    if not text:
        raise ConfigError("recordings need a place: name a folder, or a new file")
    path = Path(text).expanduser()
    if path.is_dir() or text.endswith("/") or not path.suffix:
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{text}: there is a file; recordings need a folder, or the name of a new file")
        return Folder(path)
    if path.exists():
        raise ConfigError(f"{text} exists already, and a recording overwrites nothing: name a new file, or a folder")
    if path.suffix == ZST:
        raise ConfigError(f"{text}: what is being recorded is not compressed: name it {path.stem}")
    return OneFile(path)


def part_names(first: Path, numbers: Sequence[int]) -> Iterator[Path]:
    """Names for parts with these numbers, of which the first gets the name `first`."""
    packed = ZST if first.name.endswith(ZST) else ""
    plain = first.with_name(first.name.removesuffix(ZST))
    yield first
    for number in numbers[1:]:
        yield plain.with_name(f"{plain.stem}.{number}{plain.suffix}{packed}")


def siblings(path: Path, part: int) -> list[Path]:
    """The files beside `path`, which is this part of a recording, whose names may be those of its other parts."""
    plain = Path(path.name.removesuffix(ZST))
    stem = plain.stem.removesuffix(f".{part}") if part else plain.stem
    stem = AGAIN.sub("", stem)
    names = re.compile(rf"{re.escape(stem)}(~\d+)?(\.\d+)?{re.escape(plain.suffix)}({re.escape(ZST)})?")
    try:
        return sorted(other for other in path.parent.iterdir() if names.fullmatch(other.name))
    except PermissionError:
        return []  # the file may be read, and its folder not


def has_recording_name(path: Path) -> bool:
    """Whether a file is named like a recording."""
    return path.name.removesuffix(ZST).endswith(SUFFIX) and not path.name.startswith(".")


def _numbered(folder: Path, stem: str, part: int, suffix: str) -> Iterator[Path]:
    end = f".{part}{suffix}" if part else suffix
    yield folder / f"{stem}{end}"
    for number in range(2, 1000):
        yield folder / f"{stem}~{number}{end}"


def _safe(session: str) -> str:
    """As it is, where it can stand in a name; else what can of it, with a hash so that no two become one."""
    safe = UNSAFE.sub("_", session)[:NAME_MAX]
    return safe if safe == session else f"{safe}_{sha256(session.encode()).hexdigest()[:8]}"
