"""Measurement of declared fidelity: samples go to the wire and back, and the differences are compared with the
declaration.

`faults` returns the errors of one declaration: it fails both if it declares too little and too much. Two things are not
content. The *address* (request, session) is implied by the connection in a dialect without request ids or with one
session. And fields may come back fuller than they were (`FILLED`), or in another form (`ELSEWHERE`): each is listed
here with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

from msgspec import UNSET, Struct
from msgspec.structs import replace

from dragoman.mappings.canonical import Command, commands, events
from dragoman.mappings.canonical.values import Message, Text
from dragoman.mappings.dialect import Burst, Dialect, Direction, Loss, Step, Translator
from dragoman.mappings.rules import Emulated, Exact, Fidelity, Lossy, Nothing
from tests.legal_samples import SESSION, legal_samples

AT = 1_000_000  # ns

COUNTED = "a pod counts all of them"
JOINED = "what stands beside it joins it as text"
SCHEMA = "the dialect's schema wants one"

FILLED: dict[str, str] = {
    "pod HistorySnapshot.status": "a snapshot always tells the status",
    "pod HistorySnapshot.backend": "a snapshot always says who greets",
    "pod HistorySnapshot.items.summary": "the first line of the output stands for it",
    "pod MessageAppended.message.segments": "text without segments is one text segment",
    "pod ModelTurnStarted.index": COUNTED,
    "pod ModelTurnEnded.index": COUNTED,
    "pod ModelCallStarted.index": COUNTED,
    "pod ModelCallEnded.index": COUNTED,
    "pod ToolCallFinished.summary": "the first line of the output stands for it",
    "pod Alert.at": "the time of its batch stands for it",
    "pando ToolCallFinished.output": "the summary stands for it",
    "pando MessageAppended.message.segments": "text without segments is one text segment",
    "pando TurnEnded.usage.input_tokens": "both counters or neither",
    "pando TurnEnded.usage.output_tokens": "both counters or neither",
    "pando Reply.result": "a write that went well leaves its row",
    "pando Heartbeat.report": "a heartbeat always says who lives",
    "pando BackendShutdown.reason": "a shutdown always says who goes",
    "pando StoreChanged.change": SCHEMA,
    "codewhale ToolCallFinished.output": "the summary stands for it",
    "codewhale Reply.result": "what went well has a result",
    "codewhale SubmitInput.segments.text": JOINED,
    "pando SubmitInput.segments.text": "what stands beside it joins it as text",
    "smooth SessionOpened.agent": SCHEMA,
    "smooth ToolCallFinished.output": "the summary stands for it",
    "smooth TurnEnded.message": SCHEMA,
    "smooth Pong.at": "the time of its batch stands for it",
    "smooth Reply.result": SCHEMA,
    "smooth SubmitInput.segments.text": JOINED,
}
"""Fields that come back fuller than they were said."""

ELSEWHERE: dict[str, tuple[str, set[str]]] = {
    "smooth HistorySnapshot whole": ("its clients ask for pages", {"status", "backend", "rotated"}),
    "codewhale HistorySnapshot whole": ("its clients ask for the thread", {"status", "backend", "rotated"}),
    "codewhale ToolCallArguments fragment": ("the complete arguments follow", set()),
    "pando HistorySnapshot whole": ("its clients ask for the messages", {"status", "backend", "rotated"}),
    "pando ToolCallArguments fragment": ("the complete arguments follow", set()),
    "smooth ToolCallArguments fragment": ("the complete arguments follow", set()),
    "pod TurnResult failed": ("ErrorReported wrote the error", set()),
}
"""Legal forms that write nothing by themselves: why, and the fields that no other form has."""

IN_A_TURN = {
    "smooth ErrorReported": "by itself an error is written as it is; inside a turn it waits, or is the turn's end",
    "smooth QuestionAsked": "it is written only to clients that are asked in words",
    "codewhale LifecycleReport": "by itself it is written as it is; clients of the default generation do not get it",
}
"""Emulations that only a whole turn shows: tests of the projection measure them."""

QUESTIONS: dict[type, tuple[Command, ...]] = {
    events.SessionOpened: (commands.OpenSession(agent=SESSION),),
    events.SessionsListed: (commands.ListSessions(),),
    events.HistorySnapshot: (commands.GetHistory(session=SESSION),),
    events.CompletionsListed: (commands.ListCompletions(kind="file", prefix=""),),
    events.TurnAccepted: (commands.SubmitInput(session=SESSION, segments=(Text(text="text"),)),),
    events.Pong: (commands.Ping(),),
    events.PodInspected: (commands.GetSession(session=SESSION),),
    events.PodAttached: (commands.ResumeSession(session=SESSION, agent=SESSION),),
    events.Reply: (commands.RenameSession(session=SESSION, title="text"), commands.Compact()),
}
"""Events that only whoever asked can read -> the questions to which they are answers; the first that can be asked."""


def faults(dialect: Dialect, direction: Direction[Any], kind: type[Any], fidelity: Fidelity) -> Iterator[str]:
    """Yield the errors in declaring `fidelity` for `kind`."""
    found: set[str] = set()
    all_back, is_written = True, not direction.from_canonical.entries[kind].produces
    for item in legal_samples(kind):
        measured = _there_and_back(dialect, direction, item)
        if measured is None:
            continue
        back, frames, losses = measured
        is_written = is_written or frames > 0
        if isinstance(fidelity, Nothing):
            if frames or not losses:
                yield f"declared none: {frames} frames, {losses} losses counted"
            continue
        elsewhere = ELSEWHERE.get(f"{dialect.name} {kind.__name__} {_form(item)}")
        if elsewhere is not None:
            found |= elsewhere[1]
            if frames:
                yield f"said elsewhere, and here too: {item}"
            continue
        same = [other for other in back if type(other) is kind]
        changed = _content(dialect, item, same[-1]) if same else {""}
        all_back = all_back and not changed
        found |= changed
        if isinstance(fidelity, Exact | Lossy) and not same:
            yield f"{item} took {frames} frames and came back as {[type(other).__name__ for other in back]}"
        ledger_counts = kind in direction.from_canonical.lossy
        if isinstance(fidelity, Emulated) and losses != (
            0 if ledger_counts else len(Lossy(fidelity.fields).find_lost(item))
        ):
            yield f"declared emulated, and {losses} losses are counted of {item}"
    if isinstance(fidelity, Emulated) and f"{dialect.name} {kind.__name__}" not in IN_A_TURN:
        yield from _falsely_emulated(all_back=all_back, is_written=is_written)
    if isinstance(fidelity, Exact | Lossy):
        yield from _undeclared(found - {""}, fidelity.fields if isinstance(fidelity, Lossy) else ())


def _falsely_emulated(*, all_back: bool, is_written: bool) -> Iterator[str]:
    if all_back:
        yield "declared emulated, and it comes back as it is"
    if not is_written:
        yield "declared to be written in another form, and nothing is written"


def _undeclared(found: set[str], declared: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(found):
        if not any(_within(path, field) for field in declared):
            yield f"{path} is lost, and that is not declared"
    for field in declared:
        if not any(_within(path, field) for path in found):
            yield f"{field} is declared lost, and is not"


def _within(path: str, field: str) -> bool:
    return path == field or path.startswith(f"{field}.")


def _form(item: Any) -> str:
    """Return the name of a form that a dialect writes elsewhere."""
    match item:
        case events.HistorySnapshot():
            return "page" if item.request else "whole"
        case events.ToolCallArguments(done=False):
            return "fragment"
        case events.TurnResult():
            return item.end
    return ""


# -- there and back ---------------------------------------------------------------------------------


def misheard(direction: Direction[Any], kind: type[Any], fidelity: Fidelity, frames: list[bytes]) -> Iterator[str]:
    """Yield the errors in declaring `fidelity` for reading messages of `kind`: their frames must come back."""
    lost: set[str] = set()
    for frame in frames:
        step: Step[Any] = Step()
        direction.receive([frame], step)
        again = [_json(out) for burst in step.bursts for out in direction.write(burst).frames]
        if len(again) != 1:
            yield f"{frame.decode()} came back as {len(again)} frames"
        else:
            lost |= set(_unequal(_json(frame), again[0]))
    yield from _undeclared(lost, fidelity.fields if isinstance(fidelity, Lossy) else ())
    if not isinstance(fidelity, Exact | Lossy):
        yield f"{kind.__name__} is declared {fidelity.kind}: a message that is read means something"


def _json(frame: bytes) -> object:
    """Return the JSON of a frame, after its topic if it has one."""
    return json.loads(frame.rpartition(b"\0")[2])


def _unequal(one: object, other: object, path: str = "") -> Iterator[str]:
    """Yield the paths at which two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _unequal(one.get(key, UNSET), other.get(key, UNSET), f"{path}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for a, b in zip(one, other, strict=True):
            yield from _unequal(a, b, path)
    elif one != other:
        yield path


Measured = tuple[list[Any], int, int]
"""The items that came back for an item, the number of its frames, and the number of counted losses."""


def _there_and_back(dialect: Dialect, direction: Direction[Any], item: Any) -> Measured | None:
    """Return the item after a round trip, None if it answers a command that the dialect does not have."""
    says_something = bool(direction.from_canonical.entries[type(item)].produces)
    if direction is dialect.events and says_something:
        if type(item) in QUESTIONS and item.request:
            return _answered(dialect, item)
        if type(item) is events.TurnEnded and dialect.has_request_ids:
            return _ended(dialect, item)
    rendered = direction.write(Burst(items=[item], request=getattr(item, "request", ""), at=AT))
    step: Step[Any] = Step()
    direction.receive(rendered.frames, step)
    return _said(step), len(rendered.frames), _counted(rendered.losses)


def _answered(dialect: Dialect, answer: Any) -> Measured | None:
    """Return an answer after it went through both ends of a link with its command."""
    for question in QUESTIONS[type(answer)]:
        client, server = _link(dialect)
        asking = client.send([replace(question, request=answer.request)])
        if asking.frames:
            (asked,) = _said(server.receive(asking.frames))
            answering = server.send([replace(answer, request=asked.request)])
            back = client.receive(answering.frames)
            return _said(back), len(answering.frames), _counted(answering.losses)
    return None


def _ended(dialect: Dialect, item: events.TurnEnded) -> Measured:
    """Return a terminal as the client reads it whose turn it ends."""
    client, server = _link(dialect)
    asking = client.send([commands.SubmitInput(session=SESSION, segments=(Text(text="text"),), request="text")])
    (asked,) = _said(server.receive(asking.frames))
    accepted = events.TurnAccepted(request=asked.request)
    client.receive(dialect.events.write(Burst(items=[accepted], request=asked.request, at=AT)).frames)
    rendered = dialect.events.write(Burst(items=[item], request=asked.request, at=AT))
    return _said(client.receive(rendered.frames)), len(rendered.frames), _counted(rendered.losses)


def _link(dialect: Dialect) -> tuple[Translator[Any, Any], Translator[Any, Any]]:
    """Return both ends of a link, client and server, with an open session."""
    numbers = count(1)

    def new_id() -> str:
        return str(UUID(int=next(numbers)))

    client, server = dialect.client(lambda: AT, new_id, lambda: AT), dialect.server(lambda: AT, new_id)
    opening = client.send([commands.OpenSession(agent=SESSION, request="open")])
    if opening.frames:
        (asked,) = _said(server.receive(opening.frames))
        opened = events.SessionOpened(request=asked.request, session=SESSION)
        client.receive(server.send([opened]).frames)
    return client, server


def _counted(losses: list[Loss]) -> int:
    return sum(loss.count for loss in losses)


def _said(step: Step[Any]) -> list[Any]:
    """Return the items of a step, which must have no faults: our own frames must be readable."""
    assert step.faults == []
    return [item for burst in step.bursts for item in burst.items]


# -- what differs -----------------------------------------------------------------------------------


def _content(dialect: Dialect, sent: Any, back: Any) -> set[str]:
    """Return the fields of content in which `back` differs, without those that are only fuller."""
    lost, filled = differing(sent, back)
    name = type(sent).__name__
    known = {path for path in lost | filled if f"{dialect.name} {name}.{path}" in FILLED}
    return ((lost | filled) - known - _address(dialect, sent)) | ((lost & known) - _joined(dialect, name))


def _joined(dialect: Dialect, name: str) -> set[str]:
    """Return True if a field may come back longer than it was, not only if it was empty."""
    start = f"{dialect.name} {name}."
    return {key.removeprefix(start) for key, why in FILLED.items() if key.startswith(start) and why == JOINED}


def _address(dialect: Dialect, item: Any) -> set[str]:
    """Return the fields that the connection implies; the session that a command is about is content."""
    said = set() if dialect.has_request_ids else {"request"}
    about = isinstance(item, commands.GetSession | commands.ResumeSession)
    return said if about or not dialect.single_session else said | {"session"}


def differing(sent: Any, back: Any, path: str = "") -> tuple[set[str], set[str]]:
    """Return the paths of lost fields and of added ones, without `ext`."""
    lost: set[str] = set()
    filled: set[str] = set()
    pairs: list[tuple[Any, Any, str]] = []
    if isinstance(sent, Struct) and type(sent) is type(back):
        pairs = [(getattr(sent, f), getattr(back, f), f"{path}.{f}") for f in sent.__struct_fields__ if f != "ext"]
    elif isinstance(sent, tuple) and isinstance(back, tuple) and sent:
        rest = list(back)
        for member in sent:
            twin = next((other for other in rest if _label(other) == _label(member)), None)
            if twin is None:
                lost.add(f"{path}.{_label(member)}")
                continue
            rest.remove(twin)
            pairs.append((member, twin, path))
        if rest:
            filled.add(path)
    elif sent != back:
        (lost if sent not in (None, UNSET, "", 0, (), False) else filled).add(path)
    for one, other, where in pairs:
        more = differing(one, other, where.lstrip("."))
        lost |= more[0]
        filled |= more[1]
    return {p.lstrip(".") for p in lost}, {p.lstrip(".") for p in filled}


def _label(member: Any) -> str:
    """Return the name of a member of a list: its role or its kind."""
    if isinstance(member, Message):
        return member.role
    return str(member.__struct_config__.tag) if isinstance(member, Struct) else str(member)
