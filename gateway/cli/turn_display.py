"""The events of a turn as lines of a terminal."""

from __future__ import annotations

from dragoman.gateway.backend_client.turn_runner import question_at_end
from dragoman.gateway.cli.terminal import DIM, Terminal
from dragoman.mappings.canonical import Event, events


class TurnDisplay:
    """Shows the events of turns: text as it comes, tool calls and what else happens as one line each."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._calls: dict[str, tuple[str, str]] = {}  # open tool call -> name and arguments
        self._error = ""  # the error that was shown last

    def begin(self) -> None:
        self._error = ""

    def show(self, event: Event) -> None:
        """Show an event of this client's turn as it comes."""
        match event:
            case events.TextDelta():
                self._terminal.write(event.text)
            case events.ReasoningDelta() if self._terminal.live:
                self._terminal.write(event.text, DIM)
            case events.TextDone() | events.ReasoningDone():
                self._terminal.end_line()
            case events.TurnEnded():
                pass
            case _:
                self.show_detail(event)

    def show_detail(self, event: Event) -> None:
        """Show an event that is one line."""
        match event:
            case events.ToolCallStarted():
                self._calls[event.call] = event.name, ""
            case events.ToolCallArguments() if event.done:
                self._calls[event.call] = event.name or self._calls.get(event.call, ("", ""))[0], event.json
            case events.ToolCallFinished():
                name, arguments = self._calls.pop(event.call, (event.name, ""))
                result = event.summary or event.output or ""
                self._terminal.row(f"· {name} {arguments} {'failed' if event.is_error else '→'} {result}")
            case events.Preamble():
                self._terminal.row(event.text)
            case events.ModelRetry():
                self._terminal.row(f"The model call is tried again in {event.wait_ms / 1000:g} s: {event.text}")
            case events.ErrorReported():
                self._error = event.text
                self._terminal.fail(f"Error: {event.text}")
            case events.Alert() | events.Gap():
                self._terminal.note(event.text)
            case events.OtpSent():
                self._terminal.note(f"A one-time code was sent by {event.channel} to {event.destination}.")
            case events.CompactionStarted():
                self._terminal.row("The backend summarises the history.")
            case _:
                pass

    def tell_end(self, ended: events.TurnEnded) -> None:
        """Tell how a turn ended, unless it completed, or ended with a question in words that waits for its answer."""
        if ended.end == "failed":
            why = ended.failure.text if ended.failure is not None else ""
            if not why or why != self._error:
                self._terminal.fail(f"The turn failed: {why}" if why else "The turn failed.")
        elif ended.end != "completed" and not question_at_end(ended):
            self._terminal.note(f"The turn ended: {ended.end.replace('_', ' ')}.")
