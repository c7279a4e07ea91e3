"""Report the events of a launched pod to the parent that started it (docs/dialects/pod.md, section 11).

    a run ended finished            turn_ended
    a run failed or was cancelled   errored, with the reason
    the program ends                shut_down
    the gateway asks in words       a note with the question

A parent reads only the snapshots of its child, and they have no open question: without the note it would never learn of
it. A run that a note began is internal to the pod and is not reported. Each report uses its own connection: read up to
the parent's snapshot, write one line, close. If the parent does not answer, only the report is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import structlog
from msgspec import Raw, Struct

from dragoman.adapters.base import Spawn
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.session.runs import Run
from dragoman.gateway.transports import Children, ChildSettings
from dragoman.gateway.transports.spec import Spawner
from dragoman.mappings.canonical.commands import InjectNote
from dragoman.mappings.canonical.events import QuestionAsked, RunStarted, TurnEnded
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import Burst, Frame

READ_DEADLINE = 5.0  # seconds for the parent's snapshot, as real pods allow
CALLED_BY_USERS = "user_send"

log = structlog.get_logger("dragoman.pod")


class Tagged(Struct, frozen=True):
    """The part of a parent's event that is read."""

    event: str


class Parent:
    """The parent at the socket `path`, to which the pod `name` reports."""

    def __init__(self, path: str, name: str) -> None:
        endpoint = Endpoint(dialect="pod", transport="unix", address=path)
        spawner = Spawner(Children(0), ChildSettings(env={}))
        self._connect = registry.connector(endpoint, Limits(), spawner)  # a socket spawns nothing
        self._name = name
        self._kind = CALLED_BY_USERS  # kind of the current run

    def report_turns(self, run: Run, spawn: Spawn) -> None:
        """Report a question and how a turn of the pod's session ended; `spawn` runs the report as a task."""
        for event in run.events:
            if isinstance(event, RunStarted):
                self._kind = event.kind
            elif isinstance(event, QuestionAsked):
                question = InjectNote(text=f"The pod `{self._name}` asks: {event.text}")
                spawn(self._send(question), f"{self._name}:report")
            elif isinstance(event, TurnEnded):
                kind, self._kind = self._kind, CALLED_BY_USERS
                report = self._report(event) if kind == CALLED_BY_USERS else None
                if report is not None:
                    spawn(self._send(report), f"{self._name}:report")

    def _report(self, event: TurnEnded) -> InjectNote | None:
        if event.end == "completed":
            return self._pod_event("turn_ended")
        if event.end not in ("failed", "cancelled"):
            return None
        text = event.failure.text if event.failure is not None else "Cancelled"
        return self._pod_event("errored", message=text)

    async def report_shutdown(self) -> None:
        """Report that the program ends."""
        await self._send(self._pod_event("shut_down"))

    def _pod_event(self, kind: str, **more: str) -> InjectNote:
        report = {"kind": kind, "pod_name": self._name, **more}
        return InjectNote(text="", ext={"pod.pod_event": Raw(msgspec.json.encode(report))})

    async def _send(self, report: InjectNote) -> None:
        """Write one report; log a warning if the parent is gone or silent."""
        frames = registry.dialect("pod").commands.write(Burst(items=[report])).frames
        try:
            async with asyncio.timeout(READ_DEADLINE):
                await self._write(frames)
        except (OSError, TimeoutError) as error:
            log.warning("cannot deliver the report to the parent pod", cause=full_reason(error) or "no snapshot")

    async def _write(self, frames: Sequence[bytes]) -> None:
        transport = await self._connect()
        try:
            await transport.run(_until_snapshot)
            raise ConnectionResetError("the parent closed the connection before its snapshot")
        except _SnapshotSeen:
            await transport.send(frames)
        finally:
            await transport.close()


class _SnapshotSeen(Exception):  # noqa: N818  # ends the reading, and is not an error
    """Raised to stop reading once the parent has sent its snapshot."""


def _until_snapshot(frames: Sequence[Frame]) -> int:
    if any(map(_is_snapshot, frames)):
        raise _SnapshotSeen
    return len(frames)


def _is_snapshot(frame: Frame) -> bool:
    try:
        return isinstance(frame, bytes) and msgspec.json.decode(frame, type=Tagged).event == "snapshot"
    except MALFORMED:
        return False
