"""Remember which conversation a launched pod's name stood for, so that `--pod NAME` resumes it in a later process.

The file is SESSIONS/dragoman/NAME/conversation.json, next to the sessions of real pods. The metadata of a real pod
names its own log and is never changed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

__all__ = ["Conversation", "KeptConversation"]

SIZE_MAX = 64 * 1024  # bytes of the file: a real one has about 200

log = structlog.get_logger("dragoman.pod")


class Conversation(Struct, frozen=True, kw_only=True):
    """The id `session` of a conversation at the backend `upstream` of `route`."""

    pod_name: str
    route: str
    upstream: str
    session: str


class KeptConversation:
    """The file of one pod below the folder `sessions`."""

    def __init__(self, sessions: Path, name: str) -> None:
        self._path = sessions / "dragoman" / name / "conversation.json"
        self._written: Conversation | None = None

    def read(self, route: str, upstream: str) -> str:
        """Return the id that was kept for this backend of this route, or ""."""
        try:
            with self._path.open("rb") as file:
                kept = msgspec.json.decode(file.read(SIZE_MAX), type=Conversation)
        except OSError:
            return ""
        except msgspec.DecodeError as error:
            log.warning(
                "conversation of the pod cannot be read, beginning a new one", file=str(self._path), cause=str(error)
            )
            return ""
        return kept.session if (kept.route, kept.upstream) == (route, upstream) else ""

    def write(self, conversation: Conversation) -> None:
        """Write the file atomically; a write error is logged and does not affect the session."""
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
