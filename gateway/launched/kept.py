"""Which conversation stood behind a launched pod's name: `--pod NAME` goes on with it in a later process.

It is kept beside the sessions of real pods, in SESSIONS/dragoman/NAME/conversation.json: a real pod's own metadata
names a log of its own, and is never touched.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

__all__ = ["Conversation", "KeptConversation"]

SIZE_MAX = 64 * 1024  # bytes of the file: a real one has two hundred

log = structlog.get_logger("dragoman.pod")


class Conversation(Struct, frozen=True, kw_only=True):
    """The conversation `session`, as the backend of `route` calls it; `upstream` is that backend."""

    pod_name: str
    route: str
    upstream: str
    session: str


class KeptConversation:
    """The file of one pod in the folder `sessions`."""

    def __init__(self, sessions: Path, name: str) -> None:
        self._path = sessions / "dragoman" / name / "conversation.json"
        self._written: Conversation | None = None

    def read(self, route: str, upstream: str) -> str:
        """Return the conversation that this backend of this route kept under the name, "" if there is none."""
        try:
            with self._path.open("rb") as file:
                kept = msgspec.json.decode(file.read(SIZE_MAX), type=Conversation)
        except OSError:
            return ""
        except msgspec.DecodeError as error:
            log.warning("conversation of the pod cannot be read, beginning a new one", file=str(self._path),
                        cause=str(error))  # fmt: skip
            return ""
        return kept.session if (kept.route, kept.upstream) == (route, upstream) else ""

    def write(self, conversation: Conversation) -> None:
        """Write it, whole or not at all; a disk that is full costs the file, not the session."""
        if conversation == self._written:
            return
        draft = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(conversation))
            draft.replace(self._path)
        except OSError as error:
            log.warning("conversation of the pod not kept", file=str(self._path), error=str(error))
            return
        self._written = conversation
