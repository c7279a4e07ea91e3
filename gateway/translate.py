"""Translate one stream in one direction, as a filter: the core of `dragoman translate`.

Lines of the same dialect are translated alone and nothing is added. Between two dialects, events pass the normal form
of a turn, and commands are those of one client in one session. Missing ids are counted from zero, and times come from
the input or are 0, so equal input gives equal output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from dragoman.gateway.session.commands import answers_one
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped
from dragoman.mappings.canonical.commands import ListSessions, OpenSession, Ping, ResumeSession, SubmitInput
from dragoman.mappings.canonical.values import flatten
from dragoman.mappings.dialect import Burst, Dialect, Direction, Frame, Loss, Rendered, Step
from dragoman.mappings.errors import PeerError
from dragoman.mappings.losses import sample_text


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A JSON line about a bad line or a loss; `line` counts from 1."""

    line: int
    error: str = ""
    text: str = ""
    loss: Loss | None = None


Out = Callable[[bytes], None]
TakeReport = Callable[[Report], None]


def translate(
    source: Dialect,
    target: Dialect,
    lines: Iterable[tuple[int, Frame]],
    *,
    commands: bool,
    out: Out,
    report: TakeReport,
) -> bool:
    """Translate numbered `lines`: pass frames to `out` and reports to `report`. Return True if every line was good."""
    reading: Direction[Any] = source.commands if commands else source.events
    writing: Direction[Any] = target.commands if commands else target.events
    same = source.name == target.name
    stream: _Stream | _Client | None = None if same else _Client(target) if commands else _Stream(target)
    overheard = source.overheard() if isinstance(stream, _Stream) and source.overheard is not None else None
    good = True
    for number, frame in lines:
        step = _read(reading, frame)
        for fault in step.faults:
            report(Report(line=number, error=fault.code, text=fault.text))
        unknown = [item for burst in step.bursts for item in burst.items if isinstance(item, Unmapped)]
        for item in unknown:
            report(Report(line=number, error="unknown", text=f"unknown {source.name} message {item.tag!r}"))
        good = good and not step.faults and not unknown
        if unknown and ((commands and not same) or not _writes(writing, unknown[0])):
            continue
        if isinstance(stream, _Client) and (refusal := stream.refusal(step)):
            report(Report(line=number, error="invalid", text=refusal))
            good = False
            continue
        losses = step.losses
        for burst in step.bursts:
            if overheard is not None:
                burst = structs.replace(burst, items=overheard(burst.items))  # noqa: PLW2901  # the burst as another client observes it
            for rendered in stream.render(burst) if stream is not None else [writing.write(burst)]:
                losses = losses + rendered.losses
                for output in rendered.frames:
                    out(output if writing.lines is None else writing.lines.write(output))
        for loss in losses:
            report(Report(line=number, loss=structs.replace(loss, sample=sample_text(loss.sample))))
    return good


def _read(reading: Direction[Any], frame: Frame) -> Step[Any]:
    """Return the content of one line."""
    step: Step[Any] = Step()
    try:
        if reading.lines is not None and isinstance(frame, bytes):
            frame = reading.lines.read(frame)
    except PeerError as fault:
        step.add_fault(fault)
    else:
        reading.receive([frame], step)
    return step


def _writes(writing: Direction[Any], item: Any) -> bool:
    """Return True if the target has a form for this item: for an unknown message, if its peers survive that."""
    entry = writing.from_canonical.entries.get(type(item))
    return entry is not None and bool(entry.produces)


class _Client:
    """A client of one session, which fills in the names that the target's commands need."""

    def __init__(self, target: Dialect) -> None:
        self._numbers = count()
        session = self._new_id()
        self._session = next(iter(target.public_ids(session, None)), session)
        self._agent = ""
        self._writing = target.commands

    def _new_id(self) -> str:
        return str(UUID(int=next(self._numbers)))

    def refusal(self, step: Step[Command]) -> str:
        """Return why a session would not send this, "" if it would (docs/translation.md, rule 3.10)."""
        items = (item for burst in step.bursts for item in burst.items)
        empty = any(isinstance(item, SubmitInput) and not flatten(item.segments).strip() for item in items)
        return "the input is empty" if empty else ""

    def render(self, burst: Burst[Command]) -> Iterator[Rendered]:
        yield self._writing.write(structs.replace(burst, items=[self._named(item) for item in burst.items]))

    def _named(self, command: Command) -> Command:
        if isinstance(command, Unmapped) or not _writes(self._writing, command):
            return command  # no counted id is used up
        if isinstance(command, OpenSession | ResumeSession) and not command.agent:
            self._agent = self._agent or self._new_id()
            command = structs.replace(command, agent=self._agent)
        if not command.session and not isinstance(command, OpenSession | ListSessions | Ping):
            command = structs.replace(command, session=self._session)
        return command if command.request else structs.replace(command, request=self._new_id())


class _Stream:
    """A session without clients: bursts in, rendered frames out."""

    def __init__(self, target: Dialect) -> None:
        numbers = count()

        def new_id() -> str:
            return str(UUID(int=next(numbers)))

        self._state = SessionState(id=new_id())
        self._form = NormalForm(self._state, new_id)
        self._projection = target.projection("", "")
        self._writing = target.events

    def render(self, burst: Burst[Event]) -> Iterator[Rendered]:
        for item in burst.items:
            if answers_one(item):  # a response to one link is no part of the session's stream
                yield self._writing.write(Burst(items=[item], request=burst.request, at=burst.at))
                continue
            for run in self._form.feed([item], burst.at):
                yield self._projection.render(
                    Batch(
                        session=self._state.id,
                        epoch=1,
                        first_seq=self._state.seq,
                        events=run.events,
                        turn=run.turn,
                        origin=run.origin,
                        at=burst.at,
                    )
                )
                self._state.seq += len(run.events)
