"""Write the small files by which other programs find a gateway: all at once, and never through a link.

Another user may be able to write to their folder. A link that waits there under the name of the draft would lead the
gateway to overwrite any file of its own user.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that no reader sees a part of it; what was there before is replaced, also a link.

    If it cannot be written, nothing of it is left: a folder with a draft in it could not be removed.
    """
    draft = path.with_name(f".{path.name}.tmp")
    draft.unlink(missing_ok=True)
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Create a folder for its owner alone, and those above it that are missing, whatever the umask is."""
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
