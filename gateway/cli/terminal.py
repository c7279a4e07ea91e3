"""The terminal of `chat`: the events of a turn, lines in between, and a prompt with line editing and history.

Without a terminal on stdin, lines are read without a prompt, and only the answers are written to stdout. Notices then
go to stderr. All methods may be called from another thread while `read` waits: a line then appears above the prompt.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from dragoman.gateway.backend_client.turn_runner import question_at_end
from dragoman.gateway.cli.plain_values import is_encodable
from dragoman.gateway.observability import logs
from dragoman.gateway.recording.printable import printable
from dragoman.mappings.canonical import Event, events

HISTORY_MAX = 1000  # inputs that are kept in the history file
DIM, RED, PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"
CLEAR = "\r\x1b[K"
NOT_UTF8 = "Not sent: the line is not UTF-8."


class Terminal:
    """Reads lines from stdin and writes to stdout. `live` is true if a person types and reads."""

    def __init__(self, words: Sequence[str]) -> None:
        self.live = sys.stdin.isatty() and sys.stdout.isatty()
        self._styled = self.live and logs.may_use_colours()
        self._lock = threading.RLock()
        self._prompt: str | None = None
        self._style = ""
        self._at_start = True  # True at the start of a line
        self._begins = True  # nothing of the streamed text was written yet
        self._readline = _line_editor(words) if self.live else None

    # -- output ------------------------------------------------------------------------------------------

    def write(self, text: str, style: str = "") -> None:
        """Write a piece of streamed text; text of another style begins a line."""
        with self._lock:
            if style != self._style:
                self.end_line()
            text = text.lstrip(" \n") if self._begins else text
            if not text:
                return
            self._style, self._begins, self._at_start = style, False, text.endswith("\n")
            self._put(self._in_style(printable(text), style))

    def end_line(self) -> None:
        """End the line that streamed text has begun, if any."""
        with self._lock:
            if not self._at_start:
                self._put("\n")
            self._at_start, self._begins, self._style = True, True, ""

    def line(self, text: str, style: str = "") -> None:
        """Write a line by itself, above the prompt if there is one."""
        with self._lock:
            if self._prompt is None:
                self.end_line()
                self._put(self._in_style(printable(text), style) + "\n")
                return
            typed = self._readline.get_line_buffer() if self._readline is not None else ""
            clear = CLEAR if self._styled else "\n"
            self._put(f"{clear}{self._in_style(printable(text), style)}\n{self._prompt}{typed}")

    def note(self, text: str) -> None:
        """Write a notice that is not a part of the conversation."""
        if self.live:
            self.line(text, DIM)
        else:
            logs.write_line(printable(text), sys.stderr)

    def fail(self, text: str) -> None:
        """Write a line about a failure."""
        if self.live:
            self.line(text, RED)
        else:
            self.note(text)

    def row(self, text: str) -> None:
        """Write one dim line that is cut to the width of the terminal, and nothing without a terminal."""
        if self.live:
            flat, width = " ".join(text.split()), shutil.get_terminal_size().columns - 1
            self.line(flat if len(flat) <= width else f"{flat[: width - 1]}…", DIM)

    def _in_style(self, text: str, style: str) -> str:
        return f"{style}{text}{PLAIN}" if style and self._styled else text

    @staticmethod
    def _put(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    # -- input -------------------------------------------------------------------------------------------

    def read(self, prompt: str, *, keep: bool = False) -> str:
        """Return the next line of UTF-8; raise EOFError at the end of the input. With `keep` it enters the history."""
        while not is_encodable(line := self._read_any(prompt)):
            self.fail(NOT_UTF8)
        if keep and line.strip() and self._readline is not None:
            self._readline.add_history(line)
        return line

    def _read_any(self, prompt: str) -> str:
        with self._lock:
            self.end_line()
            self._prompt = prompt if self.live else None
        try:
            return input(prompt) if self.live else _read_line()
        finally:
            with self._lock:
                self._prompt = None

    def clear_prompt(self) -> bool:
        """Begin a new line after Ctrl-C; return False if nothing was typed at the prompt."""
        typed = self._readline.get_line_buffer() if self._readline is not None else ""
        self._put("\n")
        return bool(typed.strip())

    def close(self) -> None:
        """Write the history to its file, which only its user can read."""
        if self._readline is None:
            return
        path = history_file()
        with contextlib.suppress(OSError):  # a history that cannot be written is no reason to fail
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._readline.set_history_length(HISTORY_MAX)
            self._readline.write_history_file(str(path))


def history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dragoman" / "chat_history"


def _read_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _line_editor(words: Sequence[str]) -> ModuleType | None:
    """Return readline with the history of inputs; None if this Python has no readline."""
    try:
        import readline
    except ImportError:
        return None
    readline.set_auto_history(False)  # an answer to a question may be a code
    with contextlib.suppress(OSError):
        readline.read_history_file(str(history_file()))

    def complete(begun: str, number: int) -> str | None:
        return next(iter([word for word in words if begun and word.startswith(begun)][number:]), None)

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    return readline


class TurnDisplay:
    """Shows the events of turns: text as it comes, and each tool call or other event as one line."""

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

    def show_end(self, ended: events.TurnEnded) -> None:
        """Print how a turn ended, unless it completed, or ended with a question in words that waits for its answer."""
        if ended.end == "failed":
            why = ended.failure.text if ended.failure is not None else ""
            if not why or why != self._error:
                self._terminal.fail(f"The turn failed: {why}" if why else "The turn failed.")
        elif ended.end != "completed" and not question_at_end(ended):
            self._terminal.note(f"The turn ended: {ended.end.replace('_', ' ')}.")
