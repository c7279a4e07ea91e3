"""The exit codes of the program for errors of the system, and the settings of a serving command for its process."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import msgspec
import pytest

from tests.gateway.cli.program import Run
from tests.reserved_ports import reserved_port


@pytest.mark.parametrize("place", ["listener", "ops port", "socket"])
def test_an_address_without_the_right_to_bind_it_exits_2(
    place: str, dragoman: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def bind(_socket: socket.socket, _address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with reserved_port() as port:
        url, path = f"127.0.0.1:{port}", f"{tmp_path}/sock"
        arguments, told = {
            "listener": ((f"smooth+ws://{url}/ws",), f"smooth+ws://{url}/ws: {url}: Permission denied; write a port "),
            "ops port": (
                ("--ops", f"http://{url}", f"pod+unix:{path}"),
                f"the ops port http://{url}: {url}: Permission denied; write a port ",
            ),
            "socket": ((f"pod+unix:{path}",), f"{path}: Permission denied"),
        }[place]
        monkeypatch.setattr(socket.socket, "bind", bind)
        code, _, err = dragoman("bridge", *arguments, "pod+unix:/nowhere")
    assert (code, err.startswith(f"error: {told}")) == (2, True), err


@pytest.mark.parametrize(
    "command",
    [
        *(f"{name} none" for name in ("show", "scan", "redact", "config show")),
        *("diff none none", "drive none pod+unix:/none", "matrix --from none"),
        *("show \udcff", "check \udcff"),  # a name that is not UTF-8
        *("send none hello", "send --deadline x", "check none", "status", "status --none", "sessions", "sessions show"),
    ],
)
def test_an_error_is_one_json_value_for_scripts(
    command: str, dragoman: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_OPS", raising=False)
    plain = dragoman(*command.split())
    code, out, err = dragoman(*command.split(), "--json")
    told = msgspec.json.decode(out)
    text = told[0]["text"] if isinstance(told, list) else told.get("error") or told["failure"]["text"]
    assert (code, err) == (plain[0], plain[2]), "only stdout differs"
    assert text in "".join(plain[1:])


def test_an_error_without_words_of_its_own_says_that_no_answer_came_in_time(
    dragoman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.cli.demo.DEADLINE", 0.0)
    code, _, err = dragoman("demo")
    assert (code, err) == (1, "error: no answer in time\n")
