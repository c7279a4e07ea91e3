"""The names of recordings: in a folder with a file for each session, or one file with further files beside it.

In a folder, a name is the start of the session and its id, so names sort by time. A part after a rotation has its
number before the suffix. No existing file is ever written to: a name that is taken gets `~2`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from dragoman.gateway.config.source import expand_home
from dragoman.mappings.errors import ConfigError

SUFFIX = ".jsonl"
ZST = ".zst"  # follows the suffix of a compressed file
OURS = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9._~-]*\.jsonl(\.zst)?")
"""The names of recordings in a folder. No other file in it is ever compressed or deleted."""

UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
AGAIN = re.compile(r"~\d+$")
NAME_MAX = 80  # characters of an id in a name; file systems allow 255 in all


class Place(ABC):
    """A place for recordings: a folder, and the suffix of the files in it."""

    prefers_inputs = False

    def __init__(self, folder: Path, suffix: str) -> None:
        self.folder = folder
        self._suffix = suffix

    @abstractmethod
    def stem(self, session: str, started_at: int, *, route: str, has_input: bool) -> str:
        """Return the stem of a new recording's file names: of a session, or for "" of items of `route` without one."""

    def names(self, stem: str, part: int) -> Iterator[Path]:
        """Return names for this part of a recording, the best one first."""
        end = f".{part}{self._suffix}" if part else self._suffix
        yield self.folder / f"{stem}{end}"
        for number in range(2, 1000):
            yield self.folder / f"{stem}~{number}{end}"


class Folder(Place):
    """A folder for the recordings of a gateway."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SUFFIX)

    def stem(self, session: str, started_at: int, *, route: str = "", has_input: bool = True) -> str:
        start = datetime.fromtimestamp(started_at / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
        return f"{start}-{_safe(session or f'route-{route}')}"


class OneFile(Place):
    """A file for the first session with an input; the other files stand beside it.

    Other sessions are `NAME-2`, `NAME-3` ..., and the items that belong to no session are in `NAME-route`.
    """

    prefers_inputs = True

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent, path.suffix)
        self._name = path.stem
        self._is_taken = False
        self._others = 1  # the number of the last other session

    def stem(self, session: str, started_at: int, *, route: str = "", has_input: bool = True) -> str:
        if not session:
            return f"{self._name}-route"
        if has_input and not self._is_taken:
            self._is_taken = True
            return self._name
        self._others += 1
        return f"{self._name}-{self._others}"


def place(text: str) -> Place:
    """Return the place that `--record` or `[recording]` names.

    It is a folder if it exists as one, ends in `/` or has no suffix; else it is a new file. Raise ConfigError for a
    file that exists, because recordings are never overwritten. Raise it also for the name of a compressed file, because
    a file is compressed only when it is closed.
    """
    if not text:
        raise ConfigError("recordings need a place: name a folder, or a new file")
    path = Path(expand_home(text))
    try:
        path.stat()  # Path.exists hides any error since Python 3.14
        exists = True
    except (FileNotFoundError, NotADirectoryError):
        exists = False
    except OSError as error:  # the name is too long, or a folder above it may not be searched
        raise ConfigError(f"{text}: {error.strerror}: name another place") from error
    if folder_of(text) == path:
        if exists and not path.is_dir():
            raise ConfigError(f"{text} is a file: name a folder, or a new file")
        return Folder(path)
    if exists:
        raise ConfigError(f"{text} exists already and is not overwritten: name a new file, or a folder")
    if path.suffix == ZST:
        raise ConfigError(f"{text}: a recording is compressed only after its end: name it {path.stem}")
    return OneFile(path)


def folder_of(text: str) -> Path:
    """Return the folder in which recordings to the place `text` are written, without checking that it exists."""
    path = Path(expand_home(text))
    return path if path.is_dir() or text.endswith("/") or not path.suffix else path.parent


def part_names(first: Path, numbers: Sequence[int]) -> Iterator[Path]:
    """Return names for parts with these numbers. The first part gets the name `first`."""
    packed = ZST if first.name.endswith(ZST) else ""
    plain = first.with_name(first.name.removesuffix(ZST))
    yield first
    for number in numbers[1:]:
        yield plain.with_name(f"{plain.stem}.{number}{plain.suffix}{packed}")


def siblings(path: Path, part: int) -> list[Path]:
    """Return the files beside `path`, a part of a recording, that may be its other parts by their names."""
    plain = Path(path.name.removesuffix(ZST))
    stem = plain.stem.removesuffix(f".{part}") if part else plain.stem
    stem = AGAIN.sub("", stem)
    names = re.compile(rf"{re.escape(stem)}(~\d+)?(\.\d+)?{re.escape(plain.suffix)}({re.escape(ZST)})?")
    try:
        return sorted(other for other in path.parent.iterdir() if names.fullmatch(other.name))
    except PermissionError:
        return []  # the file is readable, and its folder is not


def has_recording_name(path: Path) -> bool:
    """Return True if a file is named like a recording."""
    return path.name.removesuffix(ZST).endswith(SUFFIX) and not path.name.startswith(".")


def _safe(session: str) -> str:
    """Return an id as a part of a file name. An id that cannot stand in a name gets a hash, so that it stays unique."""
    safe = UNSAFE.sub("_", session)[:NAME_MAX]
    return safe if safe == session else f"{safe}_{sha256(session.encode()).hexdigest()[:8]}"
