"""Translate one stream in one direction, as a filter: the core of `dragoman translate`.

If both dialects are the same, each line is translated by itself and nothing is added. Between two dialects, events pass
through the normal form of a turn, and commands are those of one client in one session. Missing ids are counted from
zero, and times come from the input or are 0, so equal input gives equal output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.session.commands import answers_command
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped
from dragoman.mappings.canonical.commands import ListSessions, OpenSession, Ping, ResumeSession, SubmitInput
from dragoman.mappings.canonical.values import flatten, why_empty
from dragoman.mappings.dialect import Burst, Dialect, Direction, Frame, Loss, NewId, Rendered, Step
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
    writer = _writer(source, target, commands=commands)
    good = True
    for number, frame in lines:
        step = _read(reading, frame)
        unknown = [item for burst in step.bursts for item in burst.items if isinstance(item, Unmapped)]
        problems = [Report(line=number, error=fault.code, text=fault.text) for fault in step.faults]
        for item in unknown:
            text = f"unknown {source.name} message {item.tag!r}"
            problems.append(Report(line=number, error="unknown", text=text))
        is_written = not unknown or writer.takes(unknown[0])
        if is_written and (refusal := writer.refusal(step)):
            problems.append(Report(line=number, error="invalid", text=refusal))
            is_written = False
        good = good and not problems
        for problem in problems:
            report(problem)
        for loss in writer.write(step, out) if is_written else ():
            report(Report(line=number, loss=structs.replace(loss, sample=sample_text(loss.sample))))
    return good


def _writer(source: Dialect, target: Dialect, *, commands: bool) -> _Writer:
    kind = _Writer if source.name == target.name else _Client if commands else _Stream
    return kind(source, target, commands=commands)


def _read(reading: Direction[Any], frame: Frame) -> Step[Any]:
    step: Step[Any] = Step()
    try:
        if reading.lines is not None and isinstance(frame, bytes):
            frame = reading.lines.read(frame)
    except PeerError as fault:
        step.add_fault(fault)
    else:
        reading.receive([frame], step)
    return step


def _counted_ids() -> NewId:
    return (str(UUID(int=number)) for number in count()).__next__


class _Writer:
    """Writes each line by itself, for a target of the same dialect as the source."""

    def __init__(self, source: Dialect, target: Dialect, *, commands: bool) -> None:
        self._writing: Direction[Any] = target.commands if commands else target.events
        self._why = f"{target.name} cannot represent this field"
        self._find_partial = partial(Ledger().count_partial, source, target, commands=commands)

    def takes(self, item: Any) -> bool:
        """Return True if the target has a form for this item: for an unknown message, if its peers survive that."""
        entry = self._writing.from_canonical.entries.get(type(item))
        return entry is not None and bool(entry.produces)

    def refusal(self, _step: Step[Any]) -> str:
        """Return the reason why a session would refuse this step; "" if it would send it."""
        return ""

    def render(self, burst: Burst[Any]) -> Iterator[tuple[Sequence[Any], Rendered]]:
        """Yield the target's messages for a burst, with the items that they express."""
        yield burst.items, self._writing.write(burst)

    def write(self, step: Step[Any], out: Out) -> list[Loss]:
        """Translate and write one line; return its losses."""
        losses, lines = [*step.losses], self._writing.lines
        for items, rendered in chain.from_iterable(map(self.render, step.bursts)):
            losses += rendered.losses
            for item, fields in self._find_partial(items, rendered.losses):
                losses += [Loss(kind=type(item).__name__, field=field, why=self._why) for field in fields]
            for frame in rendered.frames:
                out(frame if lines is None else lines.write(frame))
        return losses


class _Client(_Writer):
    """A client of one session, which fills in the names that the target's commands need."""

    def __init__(self, source: Dialect, target: Dialect, *, commands: bool) -> None:
        super().__init__(source, target, commands=commands)
        self._new_id = _counted_ids()
        session = self._new_id()
        self._session = next(iter(target.public_ids(session, None)), session)
        self._agent = ""

    def takes(self, item: Any) -> bool:
        """Return True if the target has a form for this command, and it is known."""
        return not isinstance(item, Unmapped) and super().takes(item)

    def refusal(self, step: Step[Command]) -> str:
        """Return why a session would refuse this step; "" if it would not (docs/translation.md, rule 3.10)."""
        inputs = (item.segments for burst in step.bursts for item in burst.items if isinstance(item, SubmitInput))
        return next((why_empty(segments) for segments in inputs if not flatten(segments).strip()), "")

    def render(self, burst: Burst[Command]) -> Iterator[tuple[Sequence[Command], Rendered]]:
        named = [self._named(item) for item in burst.items]
        yield burst.items, self._writing.write(structs.replace(burst, items=named))

    def _named(self, command: Command) -> Command:
        if not self.takes(command):
            return command  # no counted id is used up
        if isinstance(command, OpenSession | ResumeSession) and not command.agent:
            self._agent = self._agent or self._new_id()
            command = structs.replace(command, agent=self._agent)
        if not command.session and not isinstance(command, OpenSession | ListSessions | Ping):
            command = structs.replace(command, session=self._session)
        return command if command.request else structs.replace(command, request=self._new_id())


class _Stream(_Writer):
    """A session without clients: bursts in, rendered frames out."""

    def __init__(self, source: Dialect, target: Dialect, *, commands: bool) -> None:
        super().__init__(source, target, commands=commands)
        new_id = _counted_ids()
        self._state = SessionState(id=new_id())
        self._form = NormalForm(self._state, new_id)
        self._projection = target.projection("", "")
        self._overheard = source.overheard() if source.overheard is not None else lambda items: items

    def render(self, burst: Burst[Event]) -> Iterator[tuple[Sequence[Event], Rendered]]:
        for item in self._overheard(burst.items):  # as another client observes them
            if answers_command(item):  # a response to one link is no part of the session's stream
                yield [item], self._writing.write(Burst(items=[item], request=burst.request, at=burst.at))
                continue
            for run in self._form.feed([item], burst.at):
                batch = Batch(
                    session=self._state.id,
                    epoch=1,
                    first_seq=self._state.seq,
                    events=run.events,
                    turn=run.turn,
                    origin=run.origin,
                    at=burst.at,
                )
                yield run.events, self._projection.render(batch)
                self._state.seq += len(run.events)
