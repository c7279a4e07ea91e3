"""The server's side of a link with a pod client, which gets alerts, one snapshot and then the session's events.

Answers and errors go only to the client that asked. A seed pod would send them to all (docs/translation.md, rule 3.14).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, get_args

from msgspec import structs

from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Command, Event, SessionState, Unmapped, commands, events
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.dialect import Burst, Clock, Frame, Loss, NewId, Step, Translator
from dragoman.mappings.errors import ERROR_TEXT_MAX, PeerErrorCode
from dragoman.mappings.pod.directions import FROM_CLIENT
from dragoman.mappings.pod.entries import opaque
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT
from dragoman.mappings.pod.from_canonical.replies import described, rotation, snapshot_line
from dragoman.mappings.pod.projection import Projection
from dragoman.mappings.pod.translator.pending import PENDING_MAX
from dragoman.mappings.pod.vocabulary import BAD_METHOD, keep
from dragoman.mappings.pod.wire import events as wire
from dragoman.mappings.pod.wire.codecs import EVENTS
from dragoman.mappings.pod.wire.methods import Method
from dragoman.mappings.rules import Emulated


class ServerTranslator(Translator[Command, Event]):
    """The protocol state of a link with a pod client; we are its server."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        self._clock = clock
        self._new_id = new_id
        self._session: SessionState | None = None
        self._asked: dict[str, Any] = {}  # request id -> command, if the answer depends on it; oldest first
        self._early: list[bytes] = []  # errors that wait until the client has its snapshot, which must come first
        self._shut = False

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Read methods as commands with a request id of ours; answer an invalid method with `error`."""
        step: Step[Command] = Step()
        FROM_CLIENT.receive([frame for frame in frames if not _blank(frame)], step)
        bursts, step.bursts = step.bursts, []
        for command in chain.from_iterable([burst.items for burst in bursts]):
            if type(command) is Unmapped:
                step.frames.append(_bad_method(f"unknown variant `{command.tag}`, expected one of {METHOD_NAMES}"))
                step.losses.append(Loss(kind="Unmapped", why="unknown method", sample=command.raw))
                continue
            request = self._new_id()
            named = self._named(command, request)
            step.bursts.append(Burst(items=[structs.replace(named, request=request)], request=request))
        if step.faults:
            step.frames += [_bad_method(fault.text) for fault in step.faults]
        if self._session is None:
            self._early += step.frames
            del self._early[PENDING_MAX:]
            step.frames = []
        return step

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Write answers to this client. Success has no answer in pod: the events that follow show it."""
        projection = Projection(alone=True)
        answers = []
        for item in items:
            answer = self._answer_in_pod_terms(item)
            if type(answer) in ANSWERS:
                answers.append(answer)
                self._shut = self._shut or type(answer) is events.BackendShutdown
            elif not isinstance(FROM_EVENT.entries[type(answer)].fidelity, Emulated):
                projection.lose(answer, why="a pod does not answer one client with this")
        rendered = projection.write(answers, self._clock())
        return Step(frames=rendered.frames, losses=rendered.losses)

    def attach(self, state: SessionState, request: str = "") -> Step[Command]:
        """Write the alerts and the snapshot; a client that already has a snapshot gets a rotation, and a new status."""
        now, before, self._session = self._clock(), self._session, state
        is_new = before is None or before.id != state.id
        alerts = Projection(alone=True).write(state.alerts if is_new else [], now)
        if before is not None:
            shown: list[wire.EventBase] = [rotation(state, now)]
            if state.status != before.status:
                shown.append(wire.Status(data=wire.Status.Data(status=state.status)))
            return Step(frames=[*alerts.frames, *map(EVENTS.encode, shown)], losses=alerts.losses)
        early, self._early = self._early, []
        frames = [*alerts.frames, snapshot_line(state), *early]
        return Step(frames=frames, losses=alerts.losses)

    def closed(self, cause: str) -> Step[Command]:
        """Write `shutdown` at a normal end; a client that sent invalid input sees only that the connection closes."""
        if self._session is None or self._shut or not cause or cause in get_args(PeerErrorCode):
            return Step()
        self._shut = True
        return Step(frames=[EVENTS.encode(wire.Shutdown())])

    # -- from the client --------------------------------------------------------------------------------

    def _named(self, command: Any, request: str) -> Any:
        """Return the command; if it names this client's own pod, let it name the attached session."""
        names_a_pod = type(command) in (commands.GetSession, commands.ResumeSession)
        if names_a_pod or type(command) in (commands.ResumeTurn, commands.ListCompletions):
            remember(self._asked, request, command, PENDING_MAX)
        if not names_a_pod:
            return command
        own = self._session
        is_own = own is not None and command.session == (own.backend.name or own.id)
        return structs.replace(command, session=own.id) if own is not None and is_own else command

    # -- to the client ----------------------------------------------------------------------------------

    def _answer_in_pod_terms(self, item: Any) -> Any:
        """Return an answer as a pod gives it: it describes pods, and unsupported completions are an empty list."""
        state = self._session
        asked = self._asked.pop(getattr(item, "request", ""), None)
        if type(item) is events.Reply and item.failure is not None:
            if type(asked) is commands.ResumeTurn:
                return structs.replace(item, failure=_not_paused(item.failure))
            if type(asked) is commands.ListCompletions and item.failure.cause == "unsupported":
                return events.CompletionsListed(request=item.request, kind=asked.kind, entries=())
        if state is None:
            return item
        name = state.backend.name or state.id
        if type(item) is events.SessionsListed:
            rows = [structs.replace(row, session=name) if row.session == state.id else row for row in item.sessions]
            return structs.replace(item, sessions=tuple(sorted(rows, key=lambda row: row.session)))
        if type(item) is events.SessionOpened and asked is not None:
            if type(asked) is commands.GetSession:
                return events.PodInspected(pod=opaque(described(name, item.status)), request=item.request)
            attached = {"action": "attached", "pod_name": name, "socket_path": "", "status": item.status}
            return events.PodAttached(result=opaque(attached), request=item.request)
        return item


ANSWERS = frozenset(
    (
        events.Reply,
        events.CompletionsListed,
        events.SessionsListed,
        events.PodInspected,
        events.PodAttached,
        events.BackendShutdown,  # the answer to this client's own `shutdown` (docs/translation.md, rule 3.16)
    )
)

METHOD_NAMES = ", ".join(f"`{method.__struct_config__.tag}`" for method in get_args(Method))


def _blank(frame: Frame) -> bool:
    """Return True for a blank line, which pods skip (docs/dialects/pod.md, section 1)."""
    return isinstance(frame, bytes) and frame[:1] != b"{" and not frame.decode(errors="replace").strip()


def _not_paused(failure: Failure) -> Failure:
    """Return the failure of `resume` with a pod's error code, if the backend is not a pod.

    The source is docs/dialects/pod.md, section 8.
    """
    if failure.cause != "not_running" or failure.ext is not None:
        return failure
    return structs.replace(failure, ext=keep(code="not_paused"))


def _bad_method(text: str) -> bytes:
    data = wire.Error.Data(code="internal", message=(BAD_METHOD + text)[:ERROR_TEXT_MAX])
    return EVENTS.encode(wire.Error(data=data))
