"""The ends of a turn as smooth clients are told them: its one terminal; to some a question in words is one too."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Failure, Usage
from dragoman.mappings.rules import Emulated, Lossy
from dragoman.mappings.smooth.extras import given
from dragoman.mappings.smooth.from_canonical import replies
from dragoman.mappings.smooth.from_canonical.context import Context, Messages, code_of, error_event
from dragoman.mappings.smooth.from_canonical.events import FROM_EVENT, text_delta
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.payloads import answer_of, text_of

__all__ = ["FROM_EVENT"]


@FROM_EVENT.rule(
    events.TurnEnded,
    produces=(wire.EventualResponse, wire.Cancelled, wire.ErrorEvent),
    # Six ends have three forms, and only that of a complete turn has a text, an id and usage.
    fidelity=Lossy(("end", "text", "message", "usage", "failure.cause")),
)
def turn_ended(event: events.TurnEnded, context: Context) -> Messages:
    """The terminal (docs/translation.md, rule 3.6), after the errors that waited for it."""
    if context.told:
        event = msgspec.structs.replace(event, text=event.text[context.told :])
    end, failure = event.end, event.failure or UNEXPLAINED
    terminal: Any
    if end == "failed":
        waited = context.held((failure.cause, failure.text))
        terminal = error_event(context, code_of(failure.cause, failure.ext), failure.text, failure.ext)
    else:
        waited = context.held(None)
        terminal = _eventual(event, context) if end in ("completed", "limit_reached") else _cancelled(context)
    if not waited:
        return (terminal,)
    errors = [error_event(context, code_of(held.cause, held.ext), held.text, held.ext, loose=True) for held in waited]
    return (*errors, terminal)


@FROM_EVENT.rule(
    events.QuestionAsked,
    produces=(wire.StreamToken, wire.EventualResponse),
    fidelity=Emulated("the question in smooth's own form; in words only to a client that cannot show it"),
)
def question_asked(event: events.QuestionAsked, context: Context) -> Messages:
    """To a client that cannot show a form: the question as text, and the end of its turn
    (docs/translation.md, rule 3.3).
    """
    if not context.asks_in_words(event.kind):
        return ()
    said = event.before[context.told :]
    token = f"\n\n{event.text}" if said else event.text
    message = replies.derived(context.turn, f"question {event.number}")
    terminal = _eventual(events.TurnEnded(end="completed", text=said + token, message=message), context)
    words = text_delta(events.TextDelta(text=token), context)
    context.run_ended(event)
    return (*words, terminal)


FROM_EVENT.carried(events.QuestionAnswered, "the turn going on")


UNEXPLAINED = Failure(cause="internal", text="the turn failed")


def _eventual(event: events.TurnEnded, context: Context) -> wire.EventualResponse:
    ext = event.ext
    if ext is None:
        plain = wire.FinalAnswer(
            message_id=event.message or replies.derived(context.turn or context.request_id, "message"),
            response=answer_of(event.text),
            needs_escalation=False,
            usage=_usage(event.usage, context),
        )
        said = wire.EventualData(request_id=context.request_id, status=200, data=plain)
        return wire.EventualResponse(request_id=context.top, status=200, data=said, timestamp=context.timestamp)
    reason, citations, status = given(ext, "escalationReason"), given(ext, "citations"), given(ext, "status")
    directive = given(ext, "directive")
    answer = wire.FinalAnswer(
        message_id=event.message or replies.derived(context.turn or context.request_id, "message"),
        response=_response(event),
        needs_escalation=given(ext, "needsEscalation") is True,
        escalation_reason=reason if isinstance(reason, str) else None,
        citations=msgspec.convert(citations, list[wire.Citation]) if isinstance(citations, list) else None,
        usage=_usage(event.usage, context),
        directive=UNSET if context.seed else directive if directive is None or isinstance(directive, dict) else UNSET,
    )
    code = status if isinstance(status, int) else 200
    data = wire.EventualData(request_id=context.request_id, status=code, data=answer)
    return wire.EventualResponse(request_id=context.top, status=code, data=data, timestamp=context.timestamp)


def _response(event: events.TurnEnded) -> object:
    """The backend's own `response` with the whole visible text of the turn in it (docs/translation.md, rule 3.7)."""
    original = given(event.ext, "response")
    if original is UNSET:
        return answer_of(event.text)
    text = text_of(original)
    if text is None or text == event.text:
        return original
    return original | {"responseParts": [event.text]} if isinstance(original, dict) else answer_of(event.text)


def _usage(usage: Usage | None, context: Context) -> wire.TurnUsage | None:
    if usage is None or context.seed or (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (None, None, None):
        return None
    return wire.TurnUsage(
        cost_usd=usage.cost_usd, prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens
    )


def _cancelled(context: Context) -> wire.Cancelled | wire.ErrorEvent:
    if context.seed:  # `cancelled` came later: its clients would wait for another end
        return error_event(context, "AGENT_ERROR", "the turn was cancelled")
    data = wire.CancelledData(request_id=context.top, status=499)
    return wire.Cancelled(request_id=context.top, status=499, data=data, timestamp=context.timestamp)
