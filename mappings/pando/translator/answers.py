"""Replies of a primary as answers to commands, and the commands that no primary can answer."""

from __future__ import annotations

from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import Failure, FileAttachment, ImageAttachment, flatten
from dragoman.mappings.dialect import Burst, Step
from dragoman.mappings.pando.from_canonical import FROM_COMMAND
from dragoman.mappings.pando.to_canonical import history, pong, session_opened, sessions_listed


def unsupported(command: Command) -> Failure | None:
    """Return why a pando cannot be asked this, None if it can."""
    if isinstance(command, ask.SubmitInput):
        if any(isinstance(s, ImageAttachment | FileAttachment) for s in command.segments):
            return Failure(cause="unsupported", text="a pando takes no images or files by URL")
        if not flatten(command.segments):
            return Failure(cause="invalid", text="the input is empty")
    entry = FROM_COMMAND.entries[type(command)]
    if not entry.produces:
        why = getattr(entry.fidelity, "why", "it has no such method")
        return Failure(cause="unsupported", text=f"a pando cannot be asked this: {why}")
    return None


def refuse(step: Step[Event], command: Command, failure: Failure) -> None:
    """Add the refusal of a command to the step, if its sender waits for an answer."""
    if command.request:
        refusal = say.Reply(request=command.request, failure=failure)
        step.bursts.append(Burst(items=[refusal], request=command.request, session=command.session))


def typed_answer(command: Command, reply: say.Reply, now: int) -> Event | None:
    """Return the answer that a successful reply means, None if the reply itself is the answer."""
    request = command.request
    if reply.failure is not None:
        return None
    match command:
        case ask.OpenSession() | ask.GetSession():
            return session_opened(request, reply.result)
        case ask.ResumeSession():
            return session_opened(request, reply.result, command.session)
        case ask.ListSessions():
            return sessions_listed(request, reply.result)
        case ask.GetHistory():
            return _page(command, reply)
        case ask.SubmitInput():
            return say.TurnAccepted(request=request)
        case ask.CancelTurn():
            return say.Reply(request=request)
        case ask.Ping():
            return pong(request, reply.result, now)
        case _:
            return None


def _page(command: ask.GetHistory, reply: say.Reply) -> say.HistorySnapshot | None:
    """Return the requested page of a history, newest first; pando has no pages and sends the whole list each time."""
    listed = history(reply.result)
    if listed is None:
        return None
    messages = list(listed)
    if command.cursor:
        messages = messages[: next((i for i, m in enumerate(messages) if m.id == command.cursor), 0)]
    page = messages[-command.limit :] if command.limit else messages
    more = len(page) < len(messages)
    return say.HistorySnapshot(
        request=command.request, items=tuple(reversed(page)), next_cursor=page[0].id if more and page else None
    )
