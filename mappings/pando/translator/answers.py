"""Typed answers from a primary's replies, and refusals of commands that no primary supports."""

from __future__ import annotations

from dragoman.mappings.canonical import Event, commands, events
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import Failure, FileAttachment, ImageAttachment, flatten
from dragoman.mappings.dialect import Burst, Step
from dragoman.mappings.pando.from_canonical import FROM_COMMAND
from dragoman.mappings.pando.to_canonical import history, pong, session_opened, sessions_listed


def unsupported(command: Command) -> Failure | None:
    """Return the failure for a command that pando does not support, None if it supports it."""
    if isinstance(command, commands.SubmitInput):
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
    """Add a failed Reply to the step, if the sender of the command waits for an answer."""
    if command.request:
        refusal = events.Reply(request=command.request, failure=failure)
        step.bursts.append(Burst(items=[refusal], request=command.request, session=command.session))


def typed_answer(command: Command, reply: events.Reply, now: int) -> Event | None:
    """Return the typed answer for a successful reply; None if the reply itself is the answer. `now` is in ns."""
    request = command.request
    if reply.failure is not None:
        return None
    match command:
        case commands.OpenSession() | commands.GetSession():
            return session_opened(request, reply.result)
        case commands.ResumeSession():
            return session_opened(request, reply.result, command.session)
        case commands.ListSessions():
            return sessions_listed(request, reply.result)
        case commands.GetHistory():
            return _page(command, reply)
        case commands.SubmitInput():
            return events.TurnAccepted(request=request)
        case commands.CancelTurn():
            return events.Reply(request=request)
        case commands.Ping():
            return pong(request, reply.result, now)
        case _:
            return None


def _page(command: commands.GetHistory, reply: events.Reply) -> events.HistorySnapshot | None:
    """Return the requested page of a history, newest first, cut from pando's list of all messages."""
    listed = history(reply.result)
    if listed is None:
        return None
    messages = list(listed)
    if command.cursor:
        messages = messages[: next((i for i, m in enumerate(messages) if m.id == command.cursor), 0)]
    page = messages[-command.limit :] if command.limit else messages
    more = len(page) < len(messages)
    return events.HistorySnapshot(
        request=command.request, items=tuple(reversed(page)), next_cursor=page[0].id if more and page else None
    )
