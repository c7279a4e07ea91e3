"""The files in which a launched pod keeps its state: for a later process of its name, and for its parent."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import structlog
from msgspec import UNSET, Struct, UnsetType

from dragoman.gateway.process.private_files import make_folder, write_file
from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.codec import MALFORMED

CONVERSATION_MAX = 64 * 1024  # bytes of a kept conversation: a real one has about 200

log = structlog.get_logger("dragoman.pod")


def write_state(path: Path, state: Struct, problem: str) -> bool:
    """Write the file atomically, and make its folder. A write error is only logged, as `problem`; then return False."""
    try:
        make_folder(path.parent)
        write_file(path, msgspec.json.encode(state))
    except OSError as error:
        log.warning(problem, file=str(path), error=full_reason(error))
        return False
    return True


class Conversation(Struct, frozen=True, kw_only=True):
    """The id `session` of a conversation at the backend `upstream` of `route`."""

    pod_name: str
    route: str
    upstream: str
    session: str


class KeptConversation:
    """The file that keeps the conversation of a pod's name, so that `--pod NAME` resumes it in a later process.

    It is SESSIONS/dragoman/NAME/conversation.json, next to the sessions of real pods. The metadata of a real pod names
    its own log and is never changed.
    """

    def __init__(self, sessions: Path, name: str) -> None:
        self._path = sessions / "dragoman" / name / "conversation.json"
        self._written: Conversation | None = None

    def read(self, route: str, upstream: str) -> str:
        """Return the id that was kept for this backend of this route, or ""."""
        try:
            with self._path.open("rb") as file:
                kept = msgspec.json.decode(file.read(CONVERSATION_MAX), type=Conversation)
        except OSError:
            return ""
        except MALFORMED as error:
            log.warning(
                "cannot read the pod's conversation, beginning a new one", file=str(self._path), cause=str(error)
            )
            return ""
        return kept.session if (kept.route, kept.upstream) == (route, upstream) else ""

    def write(self, conversation: Conversation) -> None:
        """Write the file atomically; a write error is logged and does not affect the session."""
        problem = "cannot save the id of the pod's conversation"
        if conversation != self._written and write_state(self._path, conversation, problem):
            self._written = conversation


class ActiveSegment(Struct, frozen=True, kw_only=True):
    """The conversation of a pod. Ours has one id, which is also that of its only segment."""

    session_id: str
    segment_id: str


class Metadata(Struct, frozen=True, kw_only=True):
    """The content of a ChildState's file; `active` is missing until the pod has a conversation."""

    pod_name: str
    active: ActiveSegment | UnsetType = UNSET


class ChildState:
    """The file by which a parent pod finds a pod that it started: SESSIONS/pods/NAME/metadata.json.

    A parent inspects or attaches to a child only if this file exists (docs/dialects/pod.md, section 10). By the ids in
    it a parent restores a child that has died. A file that exists already is the state of another pod: it is neither
    changed nor removed. Ours is removed when we end, because a real pod cannot continue our conversation.
    """

    def __init__(self, sessions: Path, name: str) -> None:
        self._name = name
        self._path = sessions / "pods" / name / "metadata.json"
        self._written: Metadata | None = None

    def write(self, session: str = "") -> None:
        """Write the file, with the id of the conversation if there is one. A write error is only logged."""
        active = ActiveSegment(session_id=session, segment_id=session) if session else UNSET
        metadata = Metadata(pod_name=self._name, active=active)
        if metadata == self._written or (self._written is None and self._path.exists()):
            return
        if write_state(self._path, metadata, "the parent pod cannot inspect this pod"):
            self._written = metadata

    def remove(self) -> None:
        """Remove the file if it is ours."""
        if self._written is not None:
            with contextlib.suppress(OSError):  # it is missing, its folder has other files, or cannot be changed now
                self._path.unlink(missing_ok=True)
                self._path.parent.rmdir()
