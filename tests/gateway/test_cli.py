"""The command line as its users meet it: help, exit codes, one line for an error."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomli
from msgspec import json as msgspec_json

from gateway import registry
from mappings.canonical import Command, Event
from tests.samples import samples

ROOT = Path(__file__).parents[2]
COMMANDS = ("bridge", "serve", "demo-backend", "demo", "translate", "schema", "dialects")
WS = "smooth+ws://127.0.0.1:0/ws"


def dragoman(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=40, check=False)


def refused(*arguments: str, code: int = 2) -> str:
    """The one line of error of a command that fails so."""
    done = dragoman(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


# -- help -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_shows_an_example(command: str) -> None:
    done = dragoman(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Example: dragoman {command}" in re.sub(r"\s+", " ", done.stdout)


def test_the_help_lists_every_command_and_a_first_try() -> None:
    done = dragoman("--help")
    assert done.returncode == 0
    listed = set(re.findall(r"^│ ([a-z-]+)\s{2,}", done.stdout, re.MULTILINE))
    assert set(COMMANDS) <= listed
    assert "dragoman demo" in done.stdout


def test_nothing_asked_shows_the_help_and_is_bad_usage() -> None:
    done = dragoman()
    assert done.returncode == 2
    assert "bridge" in done.stdout + done.stderr


def test_the_version_is_one_line() -> None:
    done = dragoman("--version")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stdout.startswith("dragoman")


@pytest.mark.parametrize("arguments", [("dance",), ("bridge", "--nope"), ("translate", "--from", "pod"), ("serve",)])
def test_bad_usage_is_told_and_exits_2(arguments: tuple[str, ...]) -> None:
    done = dragoman(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error:" in done.stderr
    assert "Traceback" not in done.stderr


# -- what cannot be served --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((WS,), "at least two endpoints"),
        ((WS, "nowhere"), "'nowhere' is no endpoint: write DIALECT+TRANSPORT:ADDRESS, for example smooth+ws://"),
        ((WS, "pud+unix:/x"), "unknown dialect 'pud': there are smooth, pod"),
        (("pod+ws://h:1", "pod+unix:/x"), "can listen on smooth+ws:..., pod+unix:..."),
        ((WS, "pod+ws://127.0.0.1:1/"), "can connect to smooth+ws:..."),
        (("smooth+ws://127.0.0.1/ws", "pod+unix:/x"), "write host and port, for example smooth+ws://127.0.0.1:8787/ws"),
        ((WS + "?orign=x", "pod+unix:/x"), "unknown option 'orign'; options of ws: origin"),
        ((WS, "pod+unix:/x", "--log-level", "loud"), "write one of debug, info, warning, error"),
    ],
)
def test_a_bridge_that_cannot_be_says_what_to_write(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("bridge", *arguments)


def test_a_port_in_use_is_named_and_exits_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("bridge", f"smooth+ws://127.0.0.1:{port}/ws", "pod+unix:/x", code=1)
    assert str(port) in line
    assert "in use" in line


def test_a_second_listener_that_cannot_be_ends_the_first(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = dragoman("bridge", f"pod+unix:{tmp_path}/sock", f"smooth+ws://127.0.0.1:{port}/ws", "pod+unix:/x")
    assert done.returncode == 1
    assert "in use" in done.stderr
    assert not (tmp_path / "sock").exists()


def test_a_host_that_nobody_knows_is_named_and_exits_1() -> None:
    assert "smooth+ws://no-such-host.invalid:1/" in refused(
        "bridge", "smooth+ws://no-such-host.invalid:1/", "pod+unix:/x", code=1
    )


def test_a_missing_directory_is_told_as_such(tmp_path: Path) -> None:
    done = dragoman("demo-backend", f"pod+unix:{tmp_path}/none/sock")
    assert done.returncode != 0
    assert f"{tmp_path}/none/sock: the directory of the socket does not exist" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_config_that_is_wrong_exits_2_and_names_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[[route]]\nlisten = []\nupstream = "pod+unix:/x"\ncolour = 1\n')
    line = refused("serve", "--config", str(path))
    assert str(path) in line
    assert "colour" in line


def test_a_config_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/none.toml: No such file" in refused("serve", "--config", f"{tmp_path}/none.toml")


# -- what is served ---------------------------------------------------------------------------------


def served(*arguments: str, listeners: int = 1) -> tuple[list[str], str]:
    """The endpoints that a served command prints, and what it says after SIGTERM; it must exit 0."""
    command = [sys.executable, "-m", "gateway", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(listeners)]
        process.send_signal(signal.SIGTERM)
        out, rest = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    return [line.removeprefix("listening ").rstrip("\n") for line in lines if line.startswith("listening ")], rest


def test_a_bridge_tells_each_listener_with_its_real_port(tmp_path: Path) -> None:
    pod = f"pod+unix:{tmp_path}/sock"
    (ws, unix), _ = served("bridge", WS, pod, "pod+unix:/x", listeners=2)
    assert re.fullmatch(r"smooth\+ws://127\.0\.0\.1:[1-9]\d*/ws", ws)
    assert unix == pod
    assert not (tmp_path / "sock").exists()


def test_a_gateway_is_served_from_its_config(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:{tmp_path}/x"\n')
    (ws,), _ = served("serve", "--config", str(path))
    assert ws.startswith("smooth+ws://127.0.0.1:")


def test_logs_on_a_pipe_are_logfmt_without_colours(tmp_path: Path) -> None:
    _, log = served("demo-backend", f"pod+unix:{tmp_path}/sock")
    assert "\x1b" not in log
    assert all(line.startswith("timestamp=") for line in log.splitlines())
    assert "event=stopped" in log


def test_logs_as_json_are_json_lines(tmp_path: Path) -> None:
    _, log = served("demo-backend", f"pod+unix:{tmp_path}/sock", "--log-json")
    assert [json.loads(line)["event"] for line in log.splitlines()][-1] == "stopped"


def test_a_log_level_hides_what_is_below(tmp_path: Path) -> None:
    assert served("demo-backend", f"pod+unix:{tmp_path}/sock", "--log-level", "error")[1] == ""


# -- for scripts ------------------------------------------------------------------------------------


def schema(what: str) -> dict[str, Any]:
    done = dragoman("schema", what)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(document)
    return document


def test_the_schema_of_events_accepts_every_event_and_command_and_nothing_else() -> None:
    validator = jsonschema.Draft202012Validator(schema("events"))
    for item in [*samples(Event), *samples(Command)]:
        validator.validate(json.loads(msgspec_json.encode(item)))
    assert not validator.is_valid({"type": "text_dance"})
    assert not validator.is_valid({"type": "text_delta"})


def test_the_schema_of_the_config_accepts_the_example() -> None:
    validator = jsonschema.Draft202012Validator(schema("config"))
    table = tomli.loads((ROOT / "config.example.toml").read_text("utf-8"))
    validator.validate(table)
    assert not validator.is_valid({**table, "colour": 1})


def test_another_schema_is_refused_with_those_there_are() -> None:
    assert "write events or config" in refused("schema", "wire")


def test_dialects_as_json_and_as_a_table_say_the_same() -> None:
    rows = json.loads(dragoman("dialects", "--json").stdout)
    assert [row["dialect"] for row in rows] == list(registry.dialects())
    forms = ["pod+unix:", "pod+dir:", "pod+name:"]
    assert rows[1] == {"dialect": "pod", "generations": ["seed"], "listen": forms, "connect": forms}
    table = dragoman("dialects")
    assert table.returncode == 0
    for row in rows:
        assert f" {row['dialect']} " in table.stdout
        assert all(word in table.stdout for key in ("generations", "listen", "connect") for word in row[key])


def test_translate_exits_0_when_every_line_was_good_1_when_not_2_when_misused() -> None:
    ways = ("translate", "--from", "pod", "--to", "smooth")
    assert dragoman(*ways, stdin='{"event":"thinking_start"}\n').returncode == 0
    assert dragoman(*ways, stdin="nonsense\n").returncode == 1
    assert dragoman("translate", "--from", "pod", "--to", "pud").returncode == 2
