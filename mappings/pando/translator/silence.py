"""The time that a turn of a primary may be silent before it is checked (docs/translation.md, rule 3.6).

A released primary updates the session when the model has ended its answer, right before it runs the calls in it. So
without that a call does not run: the model still writes, or its stream broke, which no primary publishes. An
update that came before the results of some calls was not for a later call.
"""

from __future__ import annotations

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Message, SessionSummary
from dragoman.mappings.pando.translator.known_messages import KnownMessages, has_results
from dragoman.mappings.pando.translator.output import Output, StreamedOutput
from dragoman.mappings.rfc3339 import NS

TURN_QUIET = 15.0  # seconds: docs/translation.md, rule 3.6
UPDATE_QUIET = 3.0  # seconds of silence after a session.update, in a run that our input began
TOOL_MAX = 30 * 60.0  # seconds of silence that are allowed while a tool call is open
INPUT_MAX = 120.0  # seconds of silence that are allowed while a model writes the input of a call
UPDATE_SKEW = 2.0  # seconds: the session.update before a call runs may be read so long before its tool.start
NEVER = -int(UPDATE_SKEW) * NS  # ns: before every call


class Silence:
    """The silence that is allowed in the turns of one session."""

    def __init__(self) -> None:
        self._updated_at = NEVER  # ns: the last session.update since a call ended
        self._called_at = 0  # ns: the last tool.start
        self._severed_at = -1  # ns: when the connection was made again during an open turn

    def note_update(self, session: SessionSummary, now: int) -> None:
        """Note a session.update; a session without messages was just made, and has no call."""
        if session.messages:
            self._updated_at = now

    def end_calls(self) -> None:
        """Forget the last session.update: it was for calls that have ended."""
        self._updated_at = NEVER

    def note_output(self, event: Output, output: StreamedOutput, now: int) -> None:
        """Note a publication of the turn, which `output` does not have yet."""
        if isinstance(event, events.ToolCallStarted | events.ToolCallArguments):
            self._called_at = now
        elif isinstance(event, events.ToolCallFinished) and not output.calls.keys() - {event.call}:
            self.end_calls()

    def note_reconnected(self, now: int) -> None:
        """Note that the connection was made again: our subscription takes effect some time later."""
        self._severed_at = now

    def may_miss(self, published_at: int) -> bool:
        """Return True if nothing was published since the connection was made again."""
        return self._severed_at >= published_at

    def end_reconnect(self, now: int) -> None:
        """Note that the turn goes on; after a while nothing was missed before the subscription."""
        if now - self._severed_at >= UPDATE_QUIET * NS:
            self._severed_at = -1

    def is_over(self, silence: int) -> bool:
        """Return True if the silence (ns) is too long even for a tool call."""
        return silence >= TOOL_MAX * NS

    def allowed(
        self,
        output: StreamedOutput,
        known: KnownMessages,
        listed: tuple[Message, ...],
        *,
        late: bool,
        after_update: bool,
        ours: bool,
    ) -> float:
        """Return the seconds of silence that are allowed after the last publication.

        `late` is the result of `may_miss`. `after_update` is True if that publication was a session.update, `ours` if
        our input began the run.
        """
        if output.calls and not late and not has_results(listed):
            return UPDATE_QUIET if after_update and not listed else self._in_call(output)
        if output.hides_calls and after_update and not late and known.may_call(listed, output):
            return TOOL_MAX
        return UPDATE_QUIET if late or (ours and after_update) else TURN_QUIET

    def _in_call(self, output: StreamedOutput) -> float:
        runs = self._updated_at >= self._called_at - UPDATE_SKEW * NS
        if runs or output.announced:
            return TOOL_MAX
        return INPUT_MAX if output.unfinished else TURN_QUIET
