"""One-time codes that a backend asks for: who may send one, how it reaches the backend, and what its verdict causes.

The turn has ended when a code is asked for, so no turn is parked. A client whose dialect has no form for a code types
it as an input (docs/translation.md, rule 3.3).
"""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.observability import audit
from dragoman.gateway.session import wording
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.in_flight import PendingCommand, acknowledge
from dragoman.gateway.session.ports import Client
from dragoman.mappings.canonical.commands import AnswerOtp, SubmitInput
from dragoman.mappings.canonical.events import OtpInvalid, OtpVerified, QuestionAsked, Reply
from dragoman.mappings.canonical.values import Segment, flatten
from dragoman.mappings.forms import LINE_END


def typed_code(context: SessionContext, client: Client, command: SubmitInput) -> str:
    """Return the one-time code that an input contains; "" if it contains none."""
    state = context.state
    if state.otp is None or state.turn is not None or client.can_be_asked(state.otp.asked):
        return ""
    return wording.code(flatten(command.segments))


def take_typed(context: SessionContext, client: Client, command: SubmitInput) -> bool:
    """Send the code that an input contains to the backend; return False if it contains none."""
    code = typed_code(context, client, command)
    if not code:
        return False
    answer = AnswerOtp(request=command.request, session=command.session, code=code)
    send(context, client, answer, command.segments)
    return True


def send(context: SessionContext, client: Client, command: AnswerOtp, segments: tuple[Segment, ...] = ()) -> None:
    """Send the backend a one-time code. `segments` is the input in which the client typed it, if it did."""
    audit.note("answer", client, session=context.state.id, outcome="code sent", question="")
    context.in_flight.forward(client, command, segments)


def note_verdict(
    context: SessionContext, pending: PendingCommand, event: OtpInvalid | OtpVerified
) -> SubmitInput | None:
    """Handle the backend's verdict about a code.

    Return the refused input if it must be sent again now (option `otp_resend`).
    """
    state, command, client = context.state, pending.command, pending.client
    refused = state.otp.refused if state.otp is not None else ()
    if isinstance(event, OtpVerified) or event.attempts_remaining <= 0:
        state.otp = None
    if client is None:
        return None
    if not pending.segments:
        client.send([structs.replace(event, request=command.request)])
    elif isinstance(event, OtpInvalid):
        _note(context, client, command.request, pending.segments, wording.code_invalid(event))
    elif context.route.otp_resend and refused:
        if client.attaches and not client.dialect.has_request_ids:  # it waits for the echo of its input
            _note(
                context, client, command.request, pending.segments, f"{event.text}{LINE_END}Your message is sent again."
            )
        return SubmitInput(request=command.request, session=command.session, segments=refused)
    else:
        _note(context, client, command.request, pending.segments, f"{event.text}{LINE_END}Send your message again.")
    return None


def _note(context: SessionContext, client: Client, request: str, segments: tuple[Segment, ...], text: str) -> None:
    """Answer an input outside of any turn with `text`. A client that waits for a reply also gets one."""
    now = context.services.clock()
    context.effects.deliver(context.form.questions.noted(text, now, segments=segments), now)
    if client.dialect.has_request_ids:
        client.send([QuestionAsked(text=text), Reply(request=request)])
    else:
        acknowledge(client, request)
