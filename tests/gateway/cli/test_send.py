"""`dragoman send`: one turn with a backend of each dialect, what it prints, and its exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.process.signals import Interrupted, raising_on_signals
from tests.forked_program import dragoman, forked_server
from tests.pairs.table import DIALECTS, LISTEN

KEYS = {"type", "session", "end", "text", "usage", "failure", "question"}


class Backends:
    """Demo backends, or gateways with `command="bridge"`, as processes. Each is started on first use."""

    def __init__(self, folder: Path, *options: str, command: str = "demo-backend") -> None:
        self._command = command
        self._folder = folder
        self._options = options
        self._running = contextlib.ExitStack()
        self._endpoints: dict[str, str] = {}
        self.stop = self._running.close

    def endpoint(self, dialect: str) -> str:
        """Return where the backend of this dialect listens."""
        if dialect not in self._endpoints:
            (folder := self._folder / dialect).mkdir()
            place = LISTEN[dialect].format(folder=folder)
            server = forked_server(self._command, place, "--log-level", "error", *self._options)
            self._endpoints[dialect] = self._running.enter_context(server)
        return self._endpoints[dialect]


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    started = Backends(tmp_path_factory.mktemp("send"))
    yield started
    started.stop()


def send(*arguments: str) -> subprocess.CompletedProcess[str]:
    return dragoman("send", *arguments)


def told(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the lines of `--json`."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_answer_is_printed_and_the_exit_code_is_0(backends: Backends) -> None:
    done = send(backends.endpoint("smooth"), "count 3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 2 \n", "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_json_has_the_events_of_the_turn_and_then_a_result_with_all_keys(backends: Backends, dialect: str) -> None:
    done = send(backends.endpoint(dialect), "count 3", "--json")
    *events, result = told(done)
    assert (events[0]["type"], events[-1]["type"]) == ("turn_accepted", "turn_ended")
    assert "".join(event["text"] for event in events if event["type"] == "text_delta") == "0 1 2 "
    assert (done.returncode, set(result)) == (0, KEYS)
    assert (result["type"], result["end"], result["text"]) == ("result", "completed", "0 1 2 ")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_that_fails_exits_1_and_says_why(backends: Backends, dialect: str) -> None:
    done = send(backends.endpoint(dialect), "fail")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the turn failed: ")


def test_a_question_is_printed_and_exits_3_without_a_terminal(backends: Backends) -> None:
    done = send(backends.endpoint("smooth"), "approve")
    asked, order, answers = done.stdout.splitlines()[-2:-1], "Refund 42.00 EUR for order A-1042", "approve or deny."
    assert asked == [f"The agent asks for your approval of refund_order: {order}  "]
    assert (done.returncode, done.stdout.endswith(f"\nAnswer {answers}\n")) == (3, True)


def test_json_tells_the_question_that_has_no_answer(backends: Backends) -> None:
    done = send(backends.endpoint("smooth"), "approve", "--json")
    *events, result = told(done)
    assert (done.returncode, events[-1]["type"], result["end"]) == (3, "approval_requested", None)
    assert result["question"].endswith("Answer approve or deny.")


@pytest.mark.parametrize("dialect", ["pod", "codewhale"])  # only a pod says that the turn is paused
def test_a_question_in_words_exits_3_too(backends: Backends, dialect: str) -> None:
    """A dialect without questions ends the turn with the words of the question (docs/translation.md, rule 3.3)."""
    endpoint = backends.endpoint(dialect)
    done = send(endpoint, "approve", "--json")
    result = told(done)[-1]
    assert (done.returncode, result["end"]) == (3, "paused" if dialect == "pod" else "completed")
    assert result["question"].startswith("The agent asks for your approval of refund_order: ")
    if dialect == "pod":
        send(endpoint, "deny")  # its one session goes on to the next test


@pytest.mark.parametrize("dialect", ["pod", "pando"])  # one session; and a backend that refuses unknown ones
def test_a_session_that_the_backend_does_not_have_exits_2(backends: Backends, dialect: str) -> None:
    done = send(backends.endpoint(dialect), "hello", "--session", "0e7a3f1c-0000-4000-8000-000000000000")
    assert (done.returncode, done.stdout) == (2, "")
    assert "0e7a3f1c-0000-4000-8000-000000000000" in done.stderr


def test_the_one_session_of_a_pod_is_continued_by_its_id(backends: Backends) -> None:
    endpoint = backends.endpoint("pod")
    first = told(send(endpoint, "count 1", "--json"))[-1]
    again = send(endpoint, "count 1", "--session", first["session"], "--json")
    assert (again.returncode, told(again)[-1]["session"]) == (0, first["session"])


def test_a_signal_before_the_session_is_open_has_a_result_too(tmp_path: Path) -> None:
    with socket.create_server((str(tmp_path / "sock")), family=socket.AF_UNIX) as silent:
        endpoint = f"codewhale+unix:{tmp_path}/sock"
        command = [sys.executable, "-m", "dragoman", "send", endpoint, "hello", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                out, _ = process.communicate()
    assert (process.returncode, set(json.loads(out)), json.loads(out)["end"]) == (143, KEYS, None)


def test_ctrl_c_cancels_the_turn_in_the_backend_and_exits_130(backends: Backends) -> None:
    endpoint = backends.endpoint("pod")  # its one session shows afterwards that the turn is over
    command = [sys.executable, "-m", "dragoman", "send", endpoint, "slow", "--json"]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # else a background job ignores it
    ) as process:
        assert process.stdout is not None
        while "text_delta" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        *_, result = process.stdout.read().splitlines()
    assert (process.returncode, json.loads(result)["end"]) == (130, "cancelled")
    assert send(endpoint, "count 1").stdout == "0 \n"


def test_the_second_signal_of_timeout_does_not_end_the_command_before_its_cancel() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with raising_on_signals():
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_comes_while_the_handlers_are_installed_interrupts_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def install(number: int, handler: Any) -> None:
        if handler is not signal.SIG_IGN:
            handler(number, None)

    monkeypatch.setattr(signal, "signal", install)
    with pytest.raises(Interrupted), raising_on_signals():
        pass


def test_a_turn_whose_reader_leaves_is_cancelled(backends: Backends) -> None:
    endpoint = backends.endpoint("pod")
    command = [sys.executable, "-m", "dragoman", "send", endpoint, "slow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
    assert process.returncode == 141
    assert send(endpoint, "count 1").stdout == "0 \n"


def test_a_session_is_continued_by_its_id_and_a_new_one_begun_without(tmp_path: Path) -> None:
    """The demo backend answers each further input of a session with the next turn of its script."""
    script = tmp_path / "two.jsonl"
    turn = '{{"type": "text_delta", "text": "{}"}}\n{{"type": "turn_ended", "end": "completed"}}\n'
    script.write_text(turn.format("one") + turn.format("two"))
    backends = Backends(tmp_path, "--script", str(script))
    try:
        endpoint = backends.endpoint("pando")
        first, other = (told(send(endpoint, "hello", "--json"))[-1] for _ in range(2))
        again = told(send(endpoint, "hello", "--session", first["session"], "--json"))[-1]
    finally:
        backends.stop()
    assert (again["session"], other["text"]) == (first["session"], first["text"])
    assert again["text"] != first["text"]


@pytest.mark.parametrize("dialect", ["smooth", "codewhale"])  # asked in a form of its own, and in words
def test_a_question_is_answered_on_a_terminal(backends: Backends, dialect: str) -> None:
    ours, terminal = os.openpty()
    os.write(ours, b"approve\n")
    command = [sys.executable, "-m", "dragoman", "send", backends.endpoint(dialect), "approve"]
    done = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=50, check=False)
    os.close(ours)
    os.close(terminal)
    assert (done.returncode, done.stdout.endswith("on their way back.\n")) == (0, True)
    assert done.stderr.endswith("Answer approve or deny.\n> " if dialect == "smooth" else "> ")


def test_a_question_in_words_is_shown_once_on_a_terminal(backends: Backends) -> None:
    ours, terminal = os.openpty()
    command = [sys.executable, "-m", "dragoman", "send", backends.endpoint("codewhale"), "approve"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown = ""
        while not shown.endswith("\n> "):
            shown += os.read(ours, 65536).decode().replace("\r", "")
        os.write(ours, b"deny\n")
        while process.poll() is None:
            with contextlib.suppress(OSError):  # the terminal is closed at the end of the process
                os.read(ours, 65536)
    os.close(ours)
    assert (shown.count("The agent asks for your approval"), shown.count("Answer approve or deny.")) == (1, 1)


def test_a_turn_without_an_end_exits_1_after_the_deadline(backends: Backends) -> None:
    done = send(backends.endpoint("smooth"), "wait", "--deadline", "1")
    assert (done.returncode, done.stderr) == (1, "error: the turn did not end within 1 s\n")


@pytest.mark.parametrize(
    "endpoint", ["smooth+ws://127.0.0.1:1/ws", "pod+unix:{folder}/none", "codewhale+unix:{folder}/none"]
)
def test_a_backend_that_cannot_be_reached_exits_2(endpoint: str, tmp_path: Path) -> None:
    endpoint = endpoint.format(folder=tmp_path)
    done = send(endpoint, "hello")
    assert (done.returncode, done.stdout.strip()) == (2, "")
    assert done.stderr.startswith("error: the backend cannot be reached: ")
    assert done.stderr.endswith(f" ({endpoint})\n")
    (result,) = told(send(endpoint, "hello", "--json"))
    assert (set(result), result["end"], result["failure"]["cause"]) == (KEYS, None, "upstream_lost")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_gateway_whose_backend_cannot_be_reached_exits_2_and_says_what_to_do(dialect: str, tmp_path: Path) -> None:
    gateway = Backends(tmp_path, f"pod+unix:{tmp_path}/none", command="bridge")
    try:
        done = send(gateway.endpoint(dialect), "hello", "--deadline", "20")
    finally:
        gateway.stop()
    assert done.returncode == 2
    assert "the backend cannot be reached: the socket does not exist; start the backend" in done.stderr


def test_an_address_in_the_reason_is_shown_to_the_user_of_this_machine(backends: Backends) -> None:
    endpoint = backends.endpoint("smooth").removesuffix("/ws") + "/other"
    done = send(endpoint, "hello")
    assert done.returncode == 2
    assert "nothing at '/other': open a WebSocket at /ws" in done.stderr
