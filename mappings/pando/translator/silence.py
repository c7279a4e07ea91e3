"""The time that a turn of a primary may be silent before it is checked (docs/translation.md, rule 3.6).

A released primary updates the session when the model has ended its answer, right before it runs the calls in it. So
without that a call does not run: the model still writes, or its stream broke, which no primary publishes. An
update that came before the results of some calls was not for a later call.

With most model providers it publishes a call only when the call has ended. Then these signs show that the run
continues:

    last row of the store     last publication                    so                               allowed
    answer, all published     session.update after the answer     its calls run                    TOOL_MAX
    answer with text          result of a call in the answer      its next call runs               TOOL_MAX
    answer without text       any other                           the model thinks                 INPUT_MAX
    answer with text          any other, and it hides its calls   the model writes a call's input  INPUT_MAX

In a run that our input began, the first two rows apply only if the primary hides its calls.
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
INPUT_MAX = 120.0  # seconds of silence that are allowed while a model thinks, or writes the input of a call
UPDATE_SKEW = 2.0  # seconds: the session.update before a call runs may be read so long before its tool.start
REPEATED = 0.5  # seconds: a session.update that comes so soon after an equal one repeats it
NEVER = -int(UPDATE_SKEW) * NS  # ns: before every call


class Silence:
    """The silence that is allowed in the turns of one session."""

    def __init__(self) -> None:
        self._updated_at = NEVER  # ns: the last session.update since a call ended
        self._saved_at = NEVER  # ns: the last of them that was published because an answer of the model is complete
        self._update: tuple[str, int, int] | None = None  # title, number of messages and time (ns) of the last one
        self._called_at = 0  # ns: the last tool.start
        self._severed_at = -1  # ns: when the connection was made again during an open turn

    def note_update(self, session: SessionSummary, now: int) -> None:
        """Note a session.update; a session without messages was just made, and has no call.

        A session is also updated with its first title, and a primary with a terminal publishes each update twice. A
        session that was made before we subscribed has its title.
        """
        title, messages, at = self._update or (session.title, 0, 0)
        self._update = session.title, session.messages, now
        if session.messages:
            self._updated_at = now
            if session.title == title and (session.messages != messages or now - at >= REPEATED * NS):
                self._saved_at = now

    def end_calls(self) -> None:
        """Forget the last session.update: it was for calls that have ended."""
        self._updated_at = self._saved_at = NEVER

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
        """Note that the turn continues. UPDATE_QUIET after the reconnect, no event can be missed any more."""
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
        if late:
            return UPDATE_QUIET
        if output.calls and not has_results(listed):
            return UPDATE_QUIET if after_update and not listed else self._in_call(output)
        may_call = known.may_call(listed, output)
        if may_call and (output.latest_call.is_hidden or not ours) and self._is_called(output, listed[-1]):
            return TOOL_MAX
        if ours and after_update:
            return UPDATE_QUIET
        return INPUT_MAX if may_call and (output.latest_call.is_hidden or not listed[-1].text) else TURN_QUIET

    def _in_call(self, output: StreamedOutput) -> float:
        if self._updated_at >= self._called_at - UPDATE_SKEW * NS or output.announced:
            return TOOL_MAX
        return INPUT_MAX if output.unfinished else TURN_QUIET

    def _is_called(self, output: StreamedOutput, row: Message) -> bool:
        """Return True if a call of the last row, an answer of the model, is open; it is published when it ends.

        The answer is complete, or the last output is the result of another call in it.
        """
        is_saved = self._saved_at >= output.at - UPDATE_SKEW * NS
        return is_saved or (output.ends_in_result and bool(row.text))
