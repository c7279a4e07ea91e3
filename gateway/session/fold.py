"""Fold events in normal form into a SessionState: one small function for each event that changes it.

runs.py looks up each event that it emits. FOLD_IN_TURN has the events that change only the open turn, and are ignored
without one. FOLD has the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.mappings.canonical import Event, OpenTurn, SessionState, events
from dragoman.mappings.canonical.state import (
    Block,
    CallBlock,
    Otp,
    Question,
    QuestionBlock,
    ReasoningBlock,
    Resolution,
    ResultBlock,
    TextBlock,
)
from dragoman.mappings.canonical.values import (
    COUNT_MAX,
    UNBEGUN_TURN,
    Item,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    is_chat_message,
)
from dragoman.mappings.handlers import Handlers, handler

DESCRIPTIONS = frozenset((events.HistorySnapshot, events.SessionActivated, events.SessionUpdated))
CALLS_KEPT = 256  # newest calls of ended turns that are kept: their results may come, or come again, after a resume
CALL_MAX = 1024  # characters of the id and name of such a call: ten times what real ones have


def changes_more_than_description(events: Sequence[Event]) -> bool:
    """Return True unless all of these events only describe the session."""
    return not DESCRIPTIONS.issuperset(map(type, events))


def add_usage(total: Usage | None, usage: Usage) -> Usage:
    """Return the sum of two usages, field by field; unknown plus known is known. A count is at most COUNT_MAX."""
    total = total or Usage()
    return Usage(
        input_tokens=_sum(total.input_tokens, usage.input_tokens),
        output_tokens=_sum(total.output_tokens, usage.output_tokens),
        cache_read_tokens=_sum(total.cache_read_tokens, usage.cache_read_tokens),
        cost_usd=total.cost_usd if usage.cost_usd is None else usage.cost_usd + (total.cost_usd or 0.0),
    )


def _sum(a: int | None, b: int | None) -> int | None:
    known = [value for value in (a, b) if value is not None]
    return min(sum(known), COUNT_MAX) if known else None


def _history(state: SessionState, event: events.HistorySnapshot) -> None:
    # A history may contain messages of the run that goes on; a turn may not be open yet.
    fresh = {item.id for item in state.transcript[state.fresh :] if isinstance(item, Message)}
    state.transcript = list(event.items)
    places = (i for i, item in enumerate(event.items) if isinstance(item, Message) and item.id in fresh)
    state.fresh = next(places, len(event.items))
    state.snapshot_ext = event.ext
    state.conversation = event.conversation or state.conversation
    state.summed_up = event.summed_up
    answered = {item.call for item in event.items if isinstance(item, ToolResult)}
    calls = {
        item.call: None if item.call in answered else item.name
        for item in event.items
        if isinstance(item, ToolCall) and len(item.call) + len(item.name) <= CALL_MAX
    }
    state.earlier_calls = dict(list(calls.items())[-CALLS_KEPT:])
    if event.status is not None:
        state.status = event.status
        is_found = event.status == "running" and state.turn is None
        is_logged = bool(event.runs) and event.runs[-1].end is None
        state.found_running = len(event.runs) - is_logged if is_found else None
    if event.backend is not None:
        state.backend = event.backend


def _message(state: SessionState, event: events.MessageAppended) -> None:
    turn = state.turn.id if state.turn is not None else ""
    state.transcript.append(msgspec.structs.replace(event.message, turn=turn))


def _accepted(turn: OpenTurn, _event: events.TurnAccepted) -> None:
    turn.accepted = True


def _model_turn(turn: OpenTurn, event: events.ModelTurnStarted) -> None:
    turn.model_turn, turn.in_model_turn = event, True


def _model_turn_ended(turn: OpenTurn, _event: events.ModelTurnEnded) -> None:
    turn.in_model_turn = False


def _text_delta(turn: OpenTurn, event: events.TextDelta) -> None:
    block = turn.open
    if type(block) is not TextBlock:
        block = turn.open = TextBlock(at=turn.now)
        turn.blocks.append(block)
        turn.texts.append(block)
        turn.spoke = True
    block.parts.append(event.text)


def _reasoning_started(turn: OpenTurn, _event: events.ReasoningStarted) -> None:
    turn.open = ReasoningBlock(at=turn.now)
    turn.blocks.append(turn.open)


def _reasoning_delta(turn: OpenTurn, event: events.ReasoningDelta) -> None:
    if isinstance(turn.open, ReasoningBlock):
        turn.open.parts.append(event.text)


def _block_done(turn: OpenTurn, event: events.TextDone | events.ReasoningDone) -> None:
    if turn.open is not None:
        # The done text replaces the deltas, which may lack the beginning of the block (docs/translation.md, rule 4.2).
        turn.open.parts = [event.text]
        turn.open.done = True
        turn.open = None


def _call_started(turn: OpenTurn, event: events.ToolCallStarted) -> None:
    block = CallBlock(call=event.call, name=event.name, at=turn.now)
    turn.calls[event.call] = turn.incomplete[event.call] = block
    turn.running.setdefault(event.name, {})[event.call] = block
    turn.blocks.append(block)


def _call_arguments(turn: OpenTurn, event: events.ToolCallArguments) -> None:
    block = turn.calls.get(event.call)
    if block is None:
        return
    if event.done:
        block.arguments = event.json
        turn.incomplete.pop(event.call, None)
    else:
        block.parts.append(event.json)


def _continued(turn: OpenTurn, _event: events.ModelContinuation) -> None:
    """Drop the calls without a result: the stream of the model broke, and the backend does not run them.

    They are searched for from the end: a turn may have thousands of blocks, and many such events.
    """
    dropped = {call for calls in turn.running.values() for call in calls}
    place, left = len(turn.blocks), len(dropped)
    while left:
        place -= 1
        left -= _is_open(turn.blocks[place])
    turn.blocks[place:] = [block for block in turn.blocks[place:] if not _is_open(block)]
    for call in dropped:
        del turn.calls[call]
    turn.incomplete.clear()
    turn.running.clear()


def _is_open(block: Block) -> bool:
    return isinstance(block, CallBlock) and block.result is None


def _call_finished(state: SessionState, event: events.ToolCallFinished) -> None:
    turn = state.turn
    block = turn.calls.get(event.call) if turn is not None else None
    if turn is not None and block is not None:
        block.result = event
        turn.running.get(block.name, {}).pop(event.call, None)
    elif event.call in state.earlier_calls:  # after a resume
        state.earlier_calls[event.call] = None
    if turn is not None:
        turn.blocks.append(ResultBlock(result=event, at=turn.now))


def _asked(turn: OpenTurn, event: Question) -> None:
    turn.question = QuestionBlock(asked=event)
    turn.blocks.append(turn.question)


def _put_in_words(turn: OpenTurn, event: events.QuestionAsked) -> None:
    turn.spoke = not event.parked  # a question that parks the turn ends its run
    if event.parked and turn.question is not None:
        turn.question.words, turn.asked = event, event.number


def _resolved(turn: OpenTurn, _event: Resolution) -> None:
    place = _place_of_question(turn)
    if turn.question is not None and turn.question.words is None and place is not None:
        del turn.blocks[place]
    turn.question = None  # a question in words leaves `blocks` with the next event, its QuestionAnswered


def _answered(turn: OpenTurn, event: events.QuestionAnswered) -> None:
    at = _place_of_question(turn)
    if at is None:
        return
    turn.blocks[at] = event
    if turn.question is not None:
        turn.blocks.append(turn.question)  # the question stays open, after the block that waited for this answer


def _place_of_question(turn: OpenTurn) -> int | None:
    """Return the index of the only QuestionBlock, searched for from the end: only calls may come after it."""
    places = reversed(range(len(turn.blocks)))
    return next((place for place in places if isinstance(turn.blocks[place], QuestionBlock)), None)


def _otp(state: SessionState, event: events.OtpRequired) -> None:
    inputs = (item for item in reversed(state.transcript) if is_chat_message(item, "user"))
    refused = next((message.segments or (Text(text=message.text),) for message in inputs), ())
    state.otp = Otp(asked=event, refused=refused)


def _usage(turn: OpenTurn, event: events.UsageReported) -> None:
    turn.usage = add_usage(turn.usage, event.usage)


def _result(state: SessionState, event: events.TurnResult) -> None:
    if state.turn is not None:
        state.turn.result, state.turn.result_ext = event.end, event.ext
    elif event.end == "rolled_back":
        take_back_ended(state)


def _status(state: SessionState, event: events.StatusChanged) -> None:
    state.status = event.status
    if event.status != "running":
        state.found_running = None
    if event.status != "running" and state.turn is None:
        state.fresh = len(state.transcript)  # the run of another client is over, of which nothing else was told


def _alert(state: SessionState, event: events.Alert) -> None:
    state.add_alert(event)


def _gap(state: SessionState, event: events.Gap) -> None:
    """Remember that the model has forgotten the conversation, also for clients that come later."""
    if event.context:
        state.forgotten = event
        state.add_alert(events.Alert(level="warn", source="gateway", text=event.text))


def _error(turn: OpenTurn, event: events.ErrorReported) -> None:
    turn.errors.append(event)


def _title(state: SessionState, event: events.SessionUpdated) -> None:
    title, inputs = event.session.title, (item.text for item in state.transcript if is_chat_message(item, "user"))
    if title != state.backend.name and (state.title or title != next(inputs, None)):  # these describe untitled sessions
        state.title = title
    state.updated_at = max(state.updated_at, event.session.updated_at)


def _ended(state: SessionState, event: events.TurnEnded) -> None:
    turn = state.turn
    if turn is None:
        return
    state.turn = None
    state.cut_off = turn.id if event.failure is not None and event.failure.cause == "upstream_lost" else ""
    if event.text and event.text != turn.text() and not turn.is_shortened_in(event.text):
        turn.correct_text(event.text)
    if event.end == "rolled_back" or _was_not_begun(turn, event):
        _take_back(state)
    else:
        state.transcript += _items(turn, event.message)
        if turn.calls:
            newest = list(turn.calls.values())[-CALLS_KEPT:]
            calls = {
                call.call: call.name if call.result is None else None
                for call in newest
                if len(call.call) + len(call.name) <= CALL_MAX
            }
            state.earlier_calls = dict([*state.earlier_calls.items(), *calls.items()][-CALLS_KEPT:])
    state.fresh = len(state.transcript)


def _was_not_begun(turn: OpenTurn, event: events.TurnEnded) -> bool:
    """Return True if the backend refused the input after it had accepted it, and so does not store it.

    A pod refuses an unknown workflow, a codewhale an invalid input, and any input in a turn of another program.
    """
    is_refused = event.failure is not None and event.failure.cause in ("invalid", "busy")
    is_begun = turn.model_turn is not None and turn.model_turn.ext != UNBEGUN_TURN
    return is_refused and not is_begun and not turn.blocks


def _take_back(state: SessionState) -> None:
    """Remove the user's message of a run that was rolled back or not begun (docs/translation.md, rule 3.6)."""
    del state.transcript[state.fresh :]
    state.summed_up = min(state.summed_up, state.fresh)


def take_back_ended(state: SessionState) -> None:
    """Remove the input of a run that was rolled back while no turn was open.

    It belongs to another client, or to the last turn, which a cancel ended for its clients before the backend ended it.
    If the last turn has an answer, another run was rolled back, whose input the backend did not report.
    """
    last = state.transcript[-1] if state.transcript else None
    turn = last.turn if isinstance(last, Message) and last.role == "user" else ""
    while turn and state.fresh and state.transcript[state.fresh - 1].turn == turn:
        state.fresh -= 1
    _take_back(state)


def _items(turn: OpenTurn, message: str) -> list[Item]:
    """Return the items that a turn adds to the transcript: its blocks in order. The last text has the message id."""
    items: list[Item] = []
    last = -1  # index of the newest message
    for block in turn.blocks:
        if isinstance(block, TextBlock):
            last = len(items)
            items.append(Message(role="assistant", text="".join(block.parts), at=block.at, turn=turn.id))
        elif isinstance(block, ReasoningBlock):
            items.append(Reasoning(text="".join(block.parts), at=block.at, turn=turn.id))
        elif isinstance(block, ResultBlock):
            items.append(_tool_result(block.result, block.at, turn.id))
        elif isinstance(block, CallBlock) and block.arguments is not None:  # else it was cut, and never made
            call = ToolCall(call=block.call, name=block.name, arguments=block.arguments, at=block.at, turn=turn.id)
            items.append(call)
    if last >= 0:
        items[last] = msgspec.structs.replace(items[last], id=message)
    return items


def _tool_result(event: events.ToolCallFinished, at: int, turn: str) -> ToolResult:
    return ToolResult(
        call=event.call,
        name=event.name,
        summary=event.summary,
        output=event.output,
        is_error=event.is_error,
        at=at,
        turn=turn,
    )


def _goal(state: SessionState, event: events.GoalUpdated) -> None:
    state.goal = event.goal


def _no_goal(state: SessionState, _event: events.GoalCleared) -> None:
    state.goal = None


FOLD_IN_TURN: Handlers[OpenTurn, [], None] = dict(
    [
        handler(events.TurnAccepted, _accepted),
        handler(events.ModelTurnStarted, _model_turn),
        handler(events.ModelTurnEnded, _model_turn_ended),
        handler(events.TextDelta, _text_delta),
        handler(events.TextDone, _block_done),
        handler(events.ReasoningStarted, _reasoning_started),
        handler(events.ReasoningDelta, _reasoning_delta),
        handler(events.ReasoningDone, _block_done),
        handler(events.ToolCallStarted, _call_started),
        handler(events.ToolCallArguments, _call_arguments),
        handler(events.ModelContinuation, _continued),
        handler(events.ApprovalRequested, _asked),
        handler(events.InteractionRequired, _asked),
        handler(events.QuestionAsked, _put_in_words),
        handler(events.ApprovalResolved, _resolved),
        handler(events.InteractionResolved, _resolved),
        handler(events.QuestionAnswered, _answered),
        handler(events.UsageReported, _usage),
        handler(events.ErrorReported, _error),
    ]
)

FOLD: Handlers[SessionState, [], None] = dict(
    [
        handler(events.HistorySnapshot, _history),
        handler(events.MessageAppended, _message),
        handler(events.ToolCallFinished, _call_finished),
        handler(events.OtpRequired, _otp),
        handler(events.TurnResult, _result),
        handler(events.StatusChanged, _status),
        handler(events.Alert, _alert),
        handler(events.Gap, _gap),
        handler(events.SessionUpdated, _title),
        handler(events.GoalUpdated, _goal),
        handler(events.GoalCleared, _no_goal),
        handler(events.TurnEnded, _ended),
    ]
)
