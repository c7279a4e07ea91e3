"""Rules from codewhale lines and answers to canonical events, in the order of the dialect's page
(docs/dialects/codewhale.md, sections 3, 5 and 1.2).

The burst has the response id of a line. The meaning of an answer depends on its request. So an answer becomes the
events of its EventFrames and a Reply with a raw result; the client translator makes the typed answer. Only a result
with the status `accepted` is always the end of a turn. A prompt is not a turn, so its frames stay in its result.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.canonical import Event, Events, events
from dragoman.mappings.canonical.values import Ext, Failure
from dragoman.mappings.codewhale.ids import read_id
from dragoman.mappings.codewhale.to_canonical.frames import TO_FRAME, frame_events, response_delta
from dragoman.mappings.codewhale.vocabulary import CANCELLED, CODE_OF_CAUSE, FAILED, INTERRUPTED, cause_of, keep
from dragoman.mappings.codewhale.wire import lines, results
from dragoman.mappings.dialect import BurstFacts
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.jsonrpc import TYPED_ANSWERS
from dragoman.mappings.rules import Rules

TO_EVENT = Rules[[], Event]("codewhale -> canonical events")


def envelope(message: Any) -> BurstFacts:
    """Return the request id of an answer, and an ext with the response id of a line."""
    request = read_id(message.id) if type(message) is results.Answer else ""
    return (request, "", _response(getattr(message, "response_id", UNSET))), 0


@lru_cache(maxsize=64)  # one response has thousands of lines
def _response(id: str | UnsetType) -> Ext | None:
    return keep(response_id=id)


TO_EVENT.becomes(lines.ResponseStart, events.ModelTurnStarted())
TO_EVENT.rule(lines.ResponseDelta, produces=(events.TextDelta, events.ReasoningDelta))(response_delta)
TO_EVENT.becomes(lines.ResponseEnd, events.TurnResult(end="completed"))


def hook(message: Struct) -> Events:
    return (events.LifecycleReport(report=raw(message)),)


for kind in (lines.ToolHook, lines.JobHook, lines.ApprovalHook, lines.FrameHook):
    TO_EVENT.rule(kind, produces=(events.LifecycleReport,))(hook)

INSIDE = tuple(dict.fromkeys(kind for entry in TO_FRAME.entries.values() for kind in entry.produces))
"""The events that EventFrames become."""


@TO_EVENT.rule(results.Answer, produces=(events.Reply, events.TurnEnded, *INSIDE), answers=TYPED_ANSWERS, ext=("data",))
def answer(message: results.Answer) -> Events:
    request, result = read_id(message.id), message.result
    if message.error is not UNSET:
        return (_failed(request, message.error),)
    inside: list[Any] = []
    if isinstance(result, results.ThreadResponse | results.AppResponse) and result.events:
        inside = frame_events(result.events)
        if isinstance(result, results.ThreadResponse) and result.status == "accepted":
            return (*_once(inside), events.TurnEnded(end="completed", ext=keep(result=result)))
    content = result if isinstance(result, Raw) else raw(result)
    if isinstance(result, results.ThreadResponse) and result.status == "accepted":
        return (events.TurnEnded(end="completed", ext=keep(result=content)),)
    if request == "null" and inside and isinstance(result, results.AppResponse) and bytes(result.data) == b"{}":
        return tuple(inside)  # a result that only carries frames and answers no request
    failure = refused(result)
    if failure is not None:
        return (*inside, events.Reply(request=request, failure=failure))
    return (*inside, events.Reply(request=request, result=content))


def _once(inside: list[Any]) -> list[Any]:
    """Return the events of a turn's frames without its start and end, which bare lines have already reported."""
    return [event for event in inside if not isinstance(event, events.ModelTurnStarted | events.TurnResult)]


def _failed(request: str, problem: results.Problem) -> Event:
    if problem.code == FAILED and problem.message in CANCELLED:
        ext = keep(
            message=UNSET if problem.message == INTERRUPTED else problem.message,
            data=UNSET if bytes(problem.data) == b"null" else problem.data,
        )
        return events.TurnEnded(end="cancelled", ext=ext)
    return events.Reply(request=request, failure=failure_of(problem))


def failure_of(problem: results.Problem) -> Failure:
    """Return a JSON-RPC error as a failure."""
    cause = cause_of(problem.code, problem.message)
    ext = keep(
        code=UNSET if CODE_OF_CAUSE[cause] == problem.code == FAILED else problem.code,
        data=UNSET if bytes(problem.data) == b"null" else problem.data,
    )
    return Failure(cause=cause, text=problem.message, ext=ext)


class RefusedData(Struct, frozen=True, gc=False):
    """The `data` of a result that reports a failure."""

    error: str = ""


def refused(result: object) -> Failure | None:
    """Return the failure in a result: `app/*` with `ok` false, or a missing thread. None means success."""
    missing = isinstance(result, results.ThreadResponse) and (result.status == "missing" or result.ok is False)
    not_ok = isinstance(result, results.AppResponse) and not result.ok
    if not (missing or not_ok) or not isinstance(result, results.ThreadResponse | results.AppResponse):
        return None
    data = read_raw(result.data, RefusedData)
    text = "" if data is None else data.error
    cause = cause_of(FAILED, text)
    return Failure(cause=cause, text=text or "the backend refused", ext=keep(result=result))
