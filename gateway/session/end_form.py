"""The normal form of the end of a turn: every block and call is closed, then TurnResult, StatusChanged and exactly one
TurnEnded follow (docs/design.md, section 3; docs/translation.md, rules 3.6 and 4.3).

A backend reports the end by an event, only by its status, or not at all.
"""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.session.content import Content
from dragoman.gateway.session.question_form import QuestionForm
from dragoman.gateway.session.runs import Runs
from dragoman.mappings.canonical import OpenTurn, events
from dragoman.mappings.canonical.state import ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import UNBEGUN_TURN, End, Failure, Status


class EndForm:
    """Brings the end of a turn into its normal form."""

    __slots__ = ("_content", "_questions", "_runs", "_state")

    def __init__(self, runs: Runs, content: Content, questions: QuestionForm) -> None:
        self._runs = runs
        self._state = runs.state
        self._content = content
        self._questions = questions

    def result(self, event: events.TurnResult) -> None:
        """Close every block and call: the output is over."""
        if self._state.turn is not None:
            self._close_everything(self._state.turn, event.end)
        self._runs.emit(event)

    def status(self, event: events.StatusChanged) -> None:
        """Report that the backend runs, or end the open turn because the backend is idle."""
        turn = self._state.turn
        if turn is None:
            self._runs.emit(event)
        elif event.status == "running":
            if self._state.status != "running":
                self._runs.emit(event)
        else:
            end, failure = _verdict(turn, event.status)
            self.finish(turn, end, failure, event.status, backend_status=event)

    def end_turn(self, event: events.TurnEnded) -> None:
        turn = self._runs.require_turn()
        sent = turn.text()
        if event.text and not sent.endswith(event.text) and not sent.rstrip().endswith(event.text):
            self._final_text(turn, sent, event.text)
        status: Status = "paused" if event.end == "paused" else "idle"
        self.finish(turn, event.end, event.failure, status, backend_end=event)

    def _final_text(self, turn: OpenTurn, sent: str, text: str) -> None:
        """Send the text that the whole text of a turn has beyond its deltas; report a Gap if they contradict."""
        if turn.is_shortened_in(text):
            return
        if text.startswith(sent):
            if type(turn.open) is ReasoningBlock:
                self._content.close_block()
            self._runs.emit(events.TextDelta(text=text[len(sent) :]))
            return
        self._runs.emit_gap(events.Gap(text="the final text contradicts what was streamed of it"))
        if type(turn.open) is TextBlock:
            before = sent.removesuffix("".join(turn.open.parts))
            if text.startswith(before):
                self._runs.emit(events.TextDone(text=text[len(before) :]))

    def finish(
        self,
        turn: OpenTurn,
        end: End,
        failure: Failure | None,
        status: Status,
        *,
        backend_status: events.StatusChanged | None = None,
        backend_end: events.TurnEnded | None = None,
    ) -> None:
        """End the open turn with its last events in their fixed order.

        `backend_status` and `backend_end` are the backend's events, if any.
        """
        self._questions.close_question()
        used = backend_end.usage if backend_end is not None and turn.usage is None else None
        if used is not None and turn.result is None:  # usage comes between the last text and the end of the output
            self._content.close_block()
            self._runs.emit(events.UsageReported(usage=used))
        self._close_everything(turn, end)
        failure = self._emit_failure(turn, end, failure)
        if turn.result is None:
            self._runs.emit(events.TurnResult(end=end))
        if backend_status is not None or self._state.status != status:
            self._runs.emit(backend_status or events.StatusChanged(status=status))
        terminal = backend_end or events.TurnEnded(end=end)
        self._runs.end_turn(
            structs.replace(
                terminal,
                text=terminal.text or turn.text(),
                message=terminal.message or turn.message,
                usage=turn.usage or used,
                failure=failure,
            )
        )

    def _emit_failure(self, turn: OpenTurn, end: End, failure: Failure | None) -> Failure | None:
        """Report why the turn failed, unless it was reported, and return it."""
        if end == "failed" and failure is None and not turn.errors:  # in every dialect a failure has a cause
            failure = Failure(cause="internal", text="the turn failed")
        if failure is not None and not any(
            (error.cause, error.text) == (failure.cause, failure.text) for error in turn.errors
        ):
            self._runs.emit(events.ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
        return failure

    def _close_everything(self, turn: OpenTurn, end: End) -> None:
        """Close the blocks and calls of the turn, and its model turn if the output is complete
        (docs/translation.md, rule 4.3). A turn without output gets a model turn, because a pod's parent waits for it.
        """
        if end in ("completed", "failed") and turn.model_turn is None and not (turn.blocks or turn.errors):
            self._runs.start_model_turn(events.ModelTurnStarted(ext=UNBEGUN_TURN))
        self._content.close_block()
        self._content.complete_calls(turn, is_cut=end not in ("completed", "limit_reached"))
        if end == "completed" and turn.in_model_turn:
            self._runs.emit(events.ModelTurnEnded(index=self._runs.last_model_turn))


def _verdict(turn: OpenTurn, status: Status) -> tuple[End, Failure | None]:
    """Return the end of a turn whose backend reports only an idle status (docs/translation.md, rule 3.6)."""
    if turn.errors and turn.result in (None, "failed"):
        error = turn.errors[-1]
        return "failed", Failure(cause=error.cause, text=error.text, ext=error.ext)
    return turn.result or ("paused" if status == "paused" else "completed"), None
