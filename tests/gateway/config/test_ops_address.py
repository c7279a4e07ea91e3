"""The options of the ops port: its address, and when it needs a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Ops
from dragoman.gateway.config.ops_address import OpsAddress, check_ops, parse_ops_address
from dragoman.mappings.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:8790", OpsAddress(host="127.0.0.1", port=8790)),
        ("http://[::1]:0/", OpsAddress(host="::1", port=0)),
        ("unix:/run/ops.sock", OpsAddress(path="/run/ops.sock")),
    ],
)
def test_an_address_is_a_host_with_a_port_or_a_path(text: str, address: OpsAddress) -> None:
    assert parse_ops_address(text) == address
    assert parse_ops_address(str(address)) == address


def test_the_folder_of_a_user_is_written_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert parse_ops_address("unix:~/ops.sock") == OpsAddress(path="/home/ann/ops.sock")


@pytest.mark.parametrize(
    "text", ["", "unix:", "127.0.0.1:8790", "https://127.0.0.1:1", "http://127.0.0.1", "http://h:1/x", "http://h:70000"]
)
def test_any_other_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:8790"):
        parse_ops_address(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "[::]", "agents.example"])
def test_an_address_that_other_machines_reach_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="add a token to `tokens`"):
        check_ops(Ops(listen=f"http://{host}:8790"))
    check_ops(Ops(listen=f"http://{host}:8790", tokens=("0123456789abcdef",)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    check_ops(Ops(listen=f"http://{host}:8790"))


@pytest.mark.parametrize("token", ["short", "with a space in it", "0123456789abcdeé", "0123456789abcdef\n"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        check_ops(Ops(listen="http://127.0.0.1:8790", tokens=(token,)))


def test_a_wrong_ops_table_is_reported_with_its_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:/x"\n\n[ops]\nlisten = "http://0.0.0.0:1"\n'
    )
    file.chmod(0o600)
    (problem,) = check(file).problems
    assert (problem.line, problem.path) == (6, "ops.listen")
