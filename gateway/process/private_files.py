"""Write files that are complete or not there at all, and never through a link.

Another user may be able to write to their folder. A link that waits there under the name of the draft would lead the
gateway to overwrite any file of its own user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, mode: int = 0o600, *, draft: str = "tmp") -> Iterator[BinaryIO]:
    """Open a draft that becomes the file `path` when the block ends.

    An existing file or link is replaced. After an error the draft is removed: else its folder could not be removed.
    `draft` is the suffix of the draft's name, which differs between processes that may write the same file at once. An
    OSError of the opening names `path`.
    """
    hidden = path.with_name(f".{path.name}.{draft}")
    try:
        hidden.unlink(missing_ok=True)
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with open(descriptor, "wb") as file:
            yield file
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that no reader sees a part of it."""
    with replacing(path, mode) as file:
        file.write(content)


def make_folder(path: Path) -> None:
    """Create a folder for its owner alone, and those above it that are missing, whatever the umask is."""
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
