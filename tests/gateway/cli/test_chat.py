"""`dragoman chat` on pipes and in a terminal, with a demo backend."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.gateway.cli.chat import Chat
from tests.forked_program import dragoman, forked_server

WAIT = 30.0  # seconds for a text to appear: it takes milliseconds
IN_TERMINAL = "import os, sys; os.login_tty(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


class PseudoTerminal:
    """A program in a terminal: the test types into it, and waits for its output."""

    def __init__(self, *arguments: str, state: Path) -> None:
        self._terminal, theirs = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", IN_TERMINAL, "-m", "dragoman", *arguments],
            env={**os.environ, "XDG_STATE_HOME": str(state), "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C when the program waits for a key.

        CPython's readline notices a signal while it waits, and overlooks one between the echo of a key and the wait.
        """
        status = Path(f"/proc/{self._process.pid}/status")
        until = time.monotonic() + WAIT
        while "State:\tS" not in status.read_text():
            assert time.monotonic() < until, "the program never waits"
        self.type("\x03")

    def wait_for(self, text: str) -> str:
        """Return what was shown up to this text; raise AssertionError if it does not appear."""
        until = time.monotonic() + WAIT
        while text not in self._shown:
            assert time.monotonic() < until, f"no {text!r} in {self._shown!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    self._shown += os.read(self._terminal, 65536).decode(errors="replace")
                except OSError:  # Linux: the program has ended
                    raise AssertionError(f"the end instead of {text!r} after {self._shown!r}") from None
        before, _, self._shown = self._shown.partition(text)
        return before

    def exit_code(self) -> int:
        """Return the exit code of the program."""
        code = self._process.wait(WAIT)
        os.close(self._terminal)
        return code


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    """A demo backend that has approvals and forms."""
    with forked_server("demo-backend", "smooth+ws://127.0.0.1:0/ws", "--log-level", "error") as endpoint:
        yield endpoint


def chat(endpoint: str, typed: str) -> subprocess.CompletedProcess[str]:
    return dragoman("chat", endpoint, stdin=typed)


def test_lines_of_a_pipe_are_inputs_answers_and_commands(backend: str) -> None:
    done = chat(backend, "count 3\napprove\nmaybe\ndeny\n/history\n")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, lines[0].strip()) == (0, "", "0 1 2")
    assert lines.count("Answer approve or deny.") == 2, "a line that is no answer asks again"
    assert "Then I leave the order as it is." in lines
    assert [line.partition(":")[0] for line in lines[-4:]] == ["you", "agent", "you", "agent"]


def test_the_commands_of_a_chat_list_begin_and_continue_sessions(backend: str) -> None:
    typed = [
        "/help",
        "count 2",
        "/sessions",
        "/new",
        "/history",
        "/attach",
        "/attach nobody",
        "/cancel",
        "/else",
        "/quit",
    ]
    done = chat(backend, "".join(f"{line}\n" for line in [*typed, "count 9"]))
    *commands, answer = [line.strip() for line in done.stdout.splitlines()][: len(Chat.COMMANDS) + 1]
    assert ([line.split()[0] for line in commands], answer) == ([*Chat.COMMANDS], "0 1")
    (own,) = (line for line in done.stdout.splitlines() if line.startswith("* "))
    _, first, *described = own.split()
    assert described == ["2", "messages", "count", "2"]
    began, empty, usage, unknown, stayed, cancel, word = done.stderr.splitlines()
    second = began.removeprefix("Session ")
    assert (empty, stayed) == ("This session has no messages.", began)
    assert usage == "Write /attach ID; /sessions lists the ids."
    assert unknown.startswith("the backend has no session 'nobody'; it shows ")
    assert (cancel, word.partition(";")[0]) == ("no turn is in progress", "Unknown command /else")
    assert done.returncode == 0
    again = dragoman("chat", backend, "--session", second, stdin=f"/attach {first}\n/history\n//count 1\n/history\n")
    assert again.stderr.splitlines() == [f"Session {first}"]
    shown = again.stdout.splitlines()
    assert shown[:2] == ["you: count 2", "agent: 0 1 "]
    assert "you: /count 1" in shown, "a text that begins with / is sent after //"


def test_a_question_at_the_end_of_a_pipe_exits_3(backend: str) -> None:
    done = chat(backend, "approve\n")
    assert (done.returncode, done.stdout.endswith("Answer approve or deny.\n")) == (3, True)


def test_an_input_that_a_gateway_refuses_during_a_question_is_told_once(backend: str, tmp_path: Path) -> None:
    with forked_server("bridge", f"pod+unix:{tmp_path}/pod", backend, "--log-level", "error") as endpoint:
        done = chat(endpoint, "approve\nmaybe\ndeny\n")
    assert done.stderr.splitlines() == ["Not sent: answer approve or deny first"]
    assert done.stdout.splitlines()[-1] == "Then I leave the order as it is."


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_line_that_is_not_utf8_is_refused_and_the_chat_goes_on(backend: str, errors: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "chat", backend],
        env={**os.environ, "PYTHONIOENCODING": f"utf-8:{errors}"},
        input=b"caf\xe9\ncount 3\n",
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0 1 2 \n", b"Not sent: the line is not UTF-8.\n")


def test_a_chat_in_a_terminal_cancels_asks_and_remembers(backend: str, tmp_path: Path) -> None:
    screen = PseudoTerminal("chat", backend, state=tmp_path)
    screen.wait_for("/help lists the commands.\r\n> ")
    screen.type("slow\r")
    screen.wait_for("0 1 2")
    screen.type("\x03")
    screen.wait_for("The turn ended: cancelled.")
    screen.wait_for("> ")
    screen.type("approve\r")
    screen.wait_for("Answer approve or deny.\r\n? ")
    screen.type("approve\r")
    shown = screen.wait_for("on their way back.\r\n> ")
    assert '· refund_order {"order":"A-1042"' in shown, "a tool is one line"
    screen.type("\x04")
    assert screen.exit_code() == 0
    kept = tmp_path / "dragoman" / "chat_history"
    assert (kept.read_text().splitlines()[-2:], kept.stat().st_mode & 0o777) == (["slow", "approve"], 0o600)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see that the program waits")
def test_ctrl_c_clears_what_is_typed_and_leaves_at_an_empty_prompt(backend: str, tmp_path: Path) -> None:
    screen = PseudoTerminal("chat", backend, state=tmp_path)
    screen.wait_for("\n> ")
    screen.type("half an inp")
    screen.wait_for("half an inp")
    screen.interrupt()
    screen.wait_for("\n> ")
    screen.interrupt()
    assert screen.exit_code() == 130


def test_a_lost_connection_and_other_clients_are_shown_above_the_prompt(tmp_path: Path) -> None:
    with forked_server("demo-backend", f"pod+unix:{tmp_path}/pod", "--log-level", "error") as endpoint:
        screen = PseudoTerminal("chat", endpoint, state=tmp_path)
        screen.wait_for("\n> ")
        screen.type("half")
        screen.wait_for("half")
        chat(endpoint, "count 2\n")
        screen.wait_for("another client: count 2")
        screen.wait_for("agent: 0 1")
    screen.wait_for("The connection to the backend is lost; connecting again.\r\n> half")
    screen.type("\x15\x04")
    assert screen.exit_code() == 0


def test_a_failed_connection_is_explained_and_the_exit_code_is_2(tmp_path: Path) -> None:
    done = chat(f"pod+unix:{tmp_path}/none", "hi\n")
    notice, refusal = done.stderr.splitlines()[:2]
    why = "the socket does not exist; start the backend, or correct the path"
    assert notice == f"The backend cannot be reached; trying again. ({tmp_path}/none: {why})"
    assert refusal == f"Not sent: the backend cannot be reached: {why} (pod+unix:{tmp_path}/none)"
    assert done.returncode == 2


def test_a_chat_without_stdin_ends_at_once(backend: str) -> None:
    command = ["bash", "-c", 'exec "$@" <&-', "bash", sys.executable, "-m", "dragoman", "chat", backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
