"""The command line from the user's side: help, exit codes, one line for an error."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomli
from msgspec import json as msgspec_json

from dragoman.gateway import registry
from dragoman.gateway.cli.program import COMMANDS, load_command
from dragoman.mappings.canonical import Command, Event
from tests.forked_program import NOTHING, Fork, dragoman, forked_server
from tests.gateway.recording.lines import numbered, written
from tests.pando_projects import free_project
from tests.reserved_ports import reserved_port
from tests.samples import samples

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "recordings" / "v4.jsonl"
WS = "smooth+ws://127.0.0.1:0/ws"


def refused(*arguments: str, code: int = 2) -> str:
    """Run a command that must fail with this code; return its single line of error."""
    done = dragoman(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


# -- help -------------------------------------------------------------------------------------------


@cache
def help_of(command: str) -> str:
    """Return the help of a command on a terminal of 80 columns."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "80")
        done = dragoman(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_its_line_of_the_list_its_docstring_and_an_example(command: str) -> None:
    """Rich reads a word in square brackets as markup and does not print it."""
    member = "import_" if command == "import" else command.replace("-", "_")
    docstring = getattr(import_module(f"dragoman.gateway.cli.{member}"), member).__doc__
    assert "".join(docstring.split()) in "".join(help_of(command).split())
    text = re.sub(r"\s+", " ", help_of(command))
    assert f" {COMMANDS[command][1]} " in text
    assert f"Example: dragoman {command}" in text


def test_the_help_is_shown_if_the_width_of_the_terminal_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert "Usage: dragoman" in dragoman("--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_shows_whole_options_and_no_types_of_python(command: str) -> None:
    assert re.findall(r"<(bool|str|path|list\[)", help_of(command)) == []
    options = {name for param in load_command(command).params for name in (*param.opts, *param.secondary_opts)}
    shown = set(re.findall(r"--[a-z-]+(?![a-z-]*…)", help_of(command)))
    assert {name for name in options if name.startswith("--")} - shown == set()


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("bridge", "[OPTIONS] LISTEN... UPSTREAM"),
        ("scan", "[OPTIONS] FILE..."),
        ("config", "[OPTIONS] example|show [FILE]"),
        ("docs", "[OPTIONS] [PAGE]"),
    ],
)
def test_the_usage_shows_required_arguments_bare_and_optional_ones_in_brackets(command: str, usage: str) -> None:
    lines = [line.strip() for line in help_of(command).splitlines()]
    assert f"Usage: dragoman {command} {usage}" in lines


@pytest.mark.parametrize("command", COMMANDS)
def test_each_example_can_be_pasted_into_a_shell(command: str) -> None:
    script = re.sub(r"^Example: ", "", load_command(command).epilog or "", flags=re.MULTILINE)
    assert re.fullmatch(f"(dragoman {command}[^\n]*(\n\n)?)+", script)
    assert subprocess.run(["bash", "-n", "-c", script], capture_output=True, check=False).stderr == b""


def test_the_help_lists_every_command_in_its_group_and_a_first_example() -> None:
    done = dragoman("--help")
    assert done.returncode == 0
    panels: dict[str, list[str]] = {}
    for panel, command in re.findall(r"^╭─ (\w+) ─|^│ ([a-z-]+)\s{2,}", done.stdout, re.MULTILINE):
        if panel:
            panels[panel] = []
        else:
            list(panels.values())[-1].append(command)
    grouped = {panel: [name for name, (its, _) in COMMANDS.items() if its == panel] for panel, _ in COMMANDS.values()}
    assert {panel: commands for panel, commands in panels.items() if panel != "Options"} == grouped
    assert "dragoman demo" in done.stdout


def test_each_command_has_a_file_of_its_name() -> None:
    files = {path.stem for path in (ROOT / "gateway" / "cli").glob("*.py")}
    assert {command.replace("-", "_") if command != "import" else "import_" for command in COMMANDS} <= files


LOGS = [f"dragoman.gateway.observability{module}" for module in ("", ".log_queue", ".logs")]


@pytest.mark.parametrize(("option", "more"), [("--version", []), ("--help", []), ("--zzzz", LOGS)])
def test_neither_version_nor_help_nor_an_error_of_usage_imports_the_gateway(option: str, more: list[str]) -> None:
    program = """
import sys
from dragoman.gateway.entry import main
try:
    main()
except SystemExit:
    print(sorted(name for name in sys.modules if name.startswith("dragoman.")), file=sys.stderr)
    libraries = {"aiohttp", "zmq", "asyncio", "structlog", "msgspec", "pydantic", "ssl"}
    print(sorted(libraries & {*sys.modules}), file=sys.stderr)
"""
    command = [sys.executable, "-c", program, option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=True)
    ours, libraries = done.stderr.splitlines()[-2:]
    assert ast.literal_eval(ours) == [
        "dragoman.gateway",
        "dragoman.gateway.cli",
        "dragoman.gateway.cli.plain_values",
        "dragoman.gateway.cli.program",
        "dragoman.gateway.entry",
        *more,
        "dragoman.mappings",
        "dragoman.mappings.errors",
    ]
    assert libraries == "[]"


@pytest.mark.parametrize(
    ("shell", "environment", "offered"),
    [
        ("bash", {"COMP_WORDS": "dragoman demo-", "COMP_CWORD": "1"}, "demo-backend"),
        ("bash", {"COMP_WORDS": "dragoman bridge --over", "COMP_CWORD": "2"}, "--overflow"),
        ("bash", {"COMP_WORDS": "dragoman bridge --overflow c", "COMP_CWORD": "3"}, "coalesce"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "dragoman bridge --over"}, "--overflow"),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "dragoman bridge --over", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
            "--over",
        ),
    ],
)
def test_a_shell_completes_commands_options_and_choices(
    shell: str, environment: dict[str, str], offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environment, "_DRAGOMAN_COMPLETE": f"complete_{shell}"}.items():
        monkeypatch.setenv(name, value)
    done = dragoman()
    assert (done.returncode, done.stderr) == (0, "")
    assert offered in done.stdout


def test_the_example_configuration_is_printed_unchanged() -> None:
    done = dragoman("config", "example")
    assert (done.returncode, done.stdout) == (0, (ROOT / "config.example.toml").read_text("utf-8"))


def test_the_configuration_in_force_is_printed_as_toml_and_as_json() -> None:
    shown = tomli.loads(dragoman("config", "show", str(ROOT / "config.example.toml")).stdout)
    row = json.loads(dragoman("config", "show", str(ROOT / "config.example.toml"), "--json").stdout)
    assert set(row) == {"file", "config", "defaults"}
    assert shown["limits"] == row["config"]["limits"]
    assert shown["route"] == row["config"]["route"]


def test_the_documents_are_listed_and_each_is_printed_unchanged() -> None:
    rows = json.loads(dragoman("docs", "--json").stdout)
    files = {path.relative_to(ROOT / "docs").as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    assert {f"{row['page']}.md" for row in rows} == set(files)
    listed = dragoman("docs").stdout
    for row in rows:
        assert row["page"] in listed
        assert Path(row["path"]).read_text("utf-8").startswith(f"# {row['title']}\n")
    assert dragoman("docs", "dialects/pod").stdout == files["dialects/pod.md"].read_text("utf-8")


def test_the_error_for_an_unknown_document_suggests_the_nearest() -> None:
    assert refused("docs", "desing") == "error: no document 'desing'; did you mean 'design'?"


def test_one_document_is_not_printed_as_json() -> None:
    done = dragoman("docs", "dialects/pod", "--json")
    error = "--json prints the list of documents: use it without PAGE"
    assert (done.returncode, json.loads(done.stdout)) == (2, {"error": error})


def test_the_version_is_one_line() -> None:
    done = dragoman("--version")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stdout.startswith("dragoman")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("quux",), "No such command 'quux' (dragoman --help says more)"),
        (("brigde",), "No such command 'brigde'. Did you mean 'bridge'"),
        (("bridge", "--zzzz"), "--zzzz (usage: dragoman bridge [OPTIONS] LISTEN... UPSTREAM; dragoman bridge --help"),
        (("check", "--config", "f"), "--config (usage: dragoman check [OPTIONS] FILE; dragoman check --help"),
        (("bridge", WS, "pod+unix:/x", "--aprovals", "ask"), "--approvals"),
        (("bridge", WS, "pod+unix:/x", "--approvals", "maybe"), "'maybe' is not one of ask, deny, approve"),
        (("bridge", WS, "pod+unix:/x", "--overflow", "maybe"), "'maybe' is not one of coalesce, disconnect"),
        (("bridge",), "Missing argument 'LISTEN... UPSTREAM'"),
        (("translate", "--from", "pod"), "Missing option '--to'"),
        (("translate", "--from", "pod", "--to", "pud"), "unknown dialect 'pud'; the dialects are smooth, pod"),
        (("serve",), "Missing option '--config'"),
        (("check",), "Missing argument 'FILE'"),
        (("config", "show"), "config show needs a file"),
        (("config", "example", "x.toml"), "config example takes neither a file nor --json"),
        (("config",), "Missing argument 'example|show'. Choose from: example, show"),
    ],
)
def test_wrong_usage_prints_one_line_that_says_what_to_write(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_without_arguments_the_help_is_printed_and_the_exit_code_is_2() -> None:
    done = dragoman()
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: dragoman" in done.stdout


# -- what cannot be served --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((WS,), "at least two endpoints"),
        ((WS, "nowhere"), "invalid endpoint 'nowhere': write DIALECT+TRANSPORT:ADDRESS, for example smooth+ws://"),
        (("pod+ws://h:1", "pod+unix:/x"), "can listen on smooth+ws:..., smooth+wss:..., pod+unix:..."),
        ((WS, "pod+ws://127.0.0.1:1/"), "can connect to smooth+ws:..."),
        ((WS, "pod+unix:/x", "--ops", "http://0.0.0.0:1"), "other machines can reach http://0.0.0.0:1: add a token"),
        (("smooth+ws:/ws", "pod+unix:/x"), "write host and port, for example smooth+ws://127.0.0.1:8787/ws"),
        ((WS, "pod+unix:/x", "--log-level", "loud"), "'loud' is not one of debug, info, warning, error"),
        (("smooth+ws://127.0.0.1:x/ws", "pod+unix:/x"), "each port must be a number from 0 to 65535"),
        (("smooth+ws://::1:8787/ws", "pod+unix:/x"), "an IPv6 address needs brackets, as in [::1]:8787"),
    ],
)
def test_the_error_of_an_impossible_bridge_says_what_to_write(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("bridge", *arguments)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_characters_that_the_locale_lacks_are_written_as_utf_8(tmp_path: Path, more: tuple[str, ...]) -> None:
    recording = written(tmp_path / "a.jsonl", numbered(4, text="木曜日"))
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    arguments = (sys.executable, "-m", "dragoman", "show", str(recording), *more)
    done = subprocess.run(arguments, capture_output=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "木曜日 2木曜日 4" in done.stdout.decode("utf-8")


def test_the_error_names_a_port_in_use_and_exits_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("bridge", f"smooth+ws://127.0.0.1:{port}/ws", "pod+unix:/x", code=1)
    assert line.startswith(
        f"error: smooth+ws://127.0.0.1:{port}/ws: 127.0.0.1:{port} is in use by another program; write"
    )


def test_the_error_names_a_unix_socket_in_use_and_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(path))
        taken.listen()
        used = refused("bridge", f"pod+unix:{path}", "pod+unix:/x", code=1)
        ops = refused("bridge", "--ops", f"unix:{path}", f"pod+unix:{tmp_path}/other", "pod+unix:/x", code=1)
    assert used == ops == f"error: {path}: another process listens here; stop it, or choose another path"


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        ("smooth+ws://no-such-host.invalid:1/", "smooth+ws://no-such-host.invalid:1/"),
        ("smooth+ws://a..b:1/", "'a..b' is not a valid host name"),
        ("smooth+ws://203.0.113.7:1/", "this machine has no such address; write one of its own"),
        ("pando+tcp://203.0.113.7:1024", "this machine has no such address; write one of its own"),
    ],
)
def test_the_error_names_a_host_that_is_not_this_machine_and_exits_1(listener: str, words: str) -> None:
    assert words in refused("bridge", "--insecure", listener, "pod+unix:/x", code=1)


def test_the_error_names_a_missing_directory(tmp_path: Path) -> None:
    done = dragoman("demo-backend", f"pod+unix:{tmp_path}/none/sock")
    assert done.returncode != 0
    assert f"{tmp_path}/none/sock: the socket's directory does not exist" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_error_names_a_missing_configuration_file(tmp_path: Path) -> None:
    assert f"{tmp_path}/none.toml: No such file" in refused("serve", "--config", f"{tmp_path}/none.toml")
    assert dragoman("check", f"{tmp_path}/none.toml").returncode == 2


def test_an_invalid_script_is_refused_before_any_listener_opens(tmp_path: Path) -> None:
    script = tmp_path / "turns.jsonl"
    script.write_text('{"type":"text_delta","text":"x"}\n{"type":"text_detla"}\n')
    line = refused("demo-backend", f"pod+unix:{tmp_path}/sock", "--script", str(script))
    assert line == f"error: {script}:2: invalid type 'text_detla'; did you mean 'text_delta'?"
    assert not (tmp_path / "sock").exists()


# -- check ------------------------------------------------------------------------------------------


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.toml"
    path.write_text(f'[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:/x"\napprovals = "maybe"\ncolour = 1\n')
    return path


def test_check_and_serve_print_the_same_errors_and_exit_2(wrong: Path) -> None:
    checked, served = dragoman("check", str(wrong)), dragoman("serve", "--config", str(wrong))
    assert (checked.returncode, checked.stderr) == (2, "")
    assert (served.returncode, served.stdout) == (2, "")
    first, second = checked.stdout.splitlines()
    assert first == f"{wrong}:4: route[0].approvals: 'maybe' is not one of ask, deny, approve"
    assert second.startswith(f"{wrong}:5: route[0].colour: unknown key 'colour'; write one of name, listen, upstream, ")
    assert served.stderr.splitlines() == [f"error: {first}", f"error: {second}"]


def test_check_of_a_file_for_a_launched_program_needs_no_listener(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[[route]]\nname = "a"\nupstream = "pod+unix:/x"\n')
    missing = "the key 'listen' is missing; only dragoman-pod and dragoman-codewhale need none"
    assert dragoman("check", str(path)).stdout == f"{path}:1: route[0]: {missing}\n"
    done = dragoman("check", str(path), "--launched")
    assert (done.returncode, done.stdout) == (0, f"{path}: ok, it can be served: a\n")


def test_check_escapes_control_characters_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'[[route]]\nname = "a\\u001b[2J\\nb"\nlisten = ["{WS}?\\u001b[31m=1"]\nupstream = "pod+unix:/x"\n')
    assert dragoman("check", str(path)).stdout.startswith(
        f"{path}:3: route[0].listen[0]: {WS}?\\x1b[31m=1: unknown option"
    )
    path.write_text(f'[[route]]\nname = "a\\u001b[2J\\nb"\nlisten = ["{WS}"]\nupstream = "pod+unix:/x"\n')
    assert dragoman("check", str(path)).stdout == f"{path}: ok, it can be served: a\\x1b[2J\\nb\n"


def test_check_as_json_prints_an_array_of_problems(wrong: Path) -> None:
    done = dragoman("check", str(wrong), "--json")
    rows = json.loads(done.stdout)
    assert (done.returncode, done.stderr, len(rows)) == (2, "", 2)
    assert rows[0] == {
        "file": str(wrong),
        "line": 4,
        "path": "route[0].approvals",
        "text": "'maybe' is not one of ask, deny, approve",
    }


def test_check_of_a_valid_config_says_so_and_exits_0() -> None:
    done = dragoman("check", str(ROOT / "config.example.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ROOT}/config.example.toml: ok, it can be served: assistant\n"
    assert json.loads(dragoman("check", str(ROOT / "config.example.toml"), "--json").stdout) == []


def test_a_warning_is_printed_and_the_exit_code_is_0(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'[[route]]\nlisten = ["{WS}"]\nupstream = "smooth+ws://127.0.0.1:1/ws?token=t0p"\n')
    path.chmod(0o644)
    done = dragoman("check", str(path))
    assert done.returncode == 0
    assert done.stdout.startswith(f"{path}:3: warning: route[0].upstream: contains a secret")
    (row,) = json.loads(dragoman("check", str(path), "--json").stdout)
    assert row["level"] == "warning"


def test_check_with_dial_exits_1_if_a_backend_cannot_be_reached(tmp_path: Path) -> None:
    path, there = tmp_path / "c.toml", tmp_path / "there"
    route = '[[route]]\nname = "{0}"\nlisten = ["{1}"]\nupstream = "pod+unix:{2}/{0}"\n'
    path.write_text(route.format("there", WS, tmp_path) + route.format("gone", WS, tmp_path))
    with socket.socket(socket.AF_UNIX) as backend:
        backend.bind(str(there))
        backend.listen()
        done = dragoman("check", str(path), "--probe")
        as_json = dragoman("check", str(path), "--probe", "--json")
    problem = (
        f"pod+unix:{tmp_path}/gone cannot be reached: the socket does not exist; start the backend, or correct the path"
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [f"there: ok, pod+unix:{there}", f"{path}:8: route[1].upstream: {problem}"]
    assert as_json.returncode == 1
    rows = json.loads(as_json.stdout)
    assert rows == [{"file": str(path), "line": 8, "path": "route[1].upstream", "text": problem}]


def test_a_config_with_errors_is_not_dialled(wrong: Path) -> None:
    done = dragoman("check", str(wrong), "--probe")
    assert done.returncode == 2
    assert "reached" not in done.stdout


# -- what is served ---------------------------------------------------------------------------------


def served(*arguments: str, lines: int = 1) -> tuple[list[str], str]:
    """Run a serving command and end it by SIGTERM with code 0; return its first lines and its last output."""
    output, theirs = os.pipe()
    with tempfile.TemporaryFile() as out, open(output, encoding="utf-8") as errors:
        program = Fork(*arguments, streams=(NOTHING, out.fileno(), theirs))
        os.close(theirs)
        first = [errors.readline() for _ in range(lines)]
        program.send_signal(signal.SIGTERM)
        rest = errors.read()
        assert (program.wait(), out.seek(0, os.SEEK_END)) == (0, 0)
    return [line.removeprefix("listening ").rstrip("\n") for line in first], rest


def test_a_bridge_prints_each_listener_with_its_real_port(tmp_path: Path) -> None:
    pod = f"pod+unix:{tmp_path}/sock"
    (ws, unix), log = served("bridge", WS, pod, "pod+unix:/x", lines=2)
    assert re.fullmatch(r"smooth\+ws://127\.0\.0\.1:[1-9]\d*/ws", ws)
    assert unix == pod
    assert not (tmp_path / "sock").exists()
    assert re.match(r"timestamp=.* event=stopped", log.splitlines()[-1]), "a log on a pipe is logfmt"


def test_a_gateway_is_served_from_its_config(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:{tmp_path}/x"\n')
    (ws,), _ = served("serve", "--config", str(path))
    assert ws.startswith("smooth+ws://127.0.0.1:")


def test_the_start_warns_of_each_hazard_in_one_line(tmp_path: Path, nobody: int) -> None:
    path = tmp_path / "c.toml"
    upstreams = {
        "closed": f"smooth+ws://127.0.0.1:{nobody}/ws?token=s3cret",
        "empty": f"pod+dir:{tmp_path}",
        "alone": f"pando+dir:{tmp_path}",
        "missing": "codewhale+stdio:no-such-program --api-key s3cret",
    }
    routes = [f'[[route]]\nname = "{n}"\nlisten = ["{WS}"]\nupstream = "{u}"\n' for n, u in upstreams.items()]
    routes[0] = routes[0].replace("127.0.0.1:0", "0.0.0.0:0") + "insecure = true\n"
    path.write_text("".join(routes) + '[recording]\npath = "/proc/nowhere/"\n')
    path.chmod(0o600)
    printed, _ = served("serve", "--config", str(path), lines=4 + 6)
    told = [line.split(" ", 1)[1].rstrip() for line in printed if "level=warning" in line]
    assert len(told) == 6
    text = "\n".join(told)
    assert "smooth+ws://0.0.0.0:0/ws accepts clients from other machines without authentication" in text
    assert "codewhale+stdio:no-such-program ...: no such program in PATH; install it" in text
    assert "recordings cannot be written to /proc/nowhere/: " in text
    assert f"smooth+ws://127.0.0.1:{nobody}/ws?token=*** cannot be reached: nothing listens there" in text
    assert f"pod+dir:{tmp_path}: no pod is running there (at {tmp_path}/NAME/sock)" in text
    assert f"no pando is running for {tmp_path}: no primary answers at 127.0.0.1, ports " in text


@pytest.mark.parametrize("command", [("replay", str(RECORDED), "--listen"), ("demo-backend",)])
def test_a_backend_for_other_machines_is_served_with_a_warning(command: tuple[str, ...]) -> None:
    listener = "smooth+ws://0.0.0.0:0/ws"
    (_, warning), _ = served(*command, listener, lines=2)
    assert f"{listener} accepts clients from other machines without authentication" in warning


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    with free_project(tmp_path) as folder:
        yield folder


@pytest.fixture
def nobody() -> Iterator[int]:
    """Return a port at which nothing listens."""
    with reserved_port() as port:
        yield port


def test_each_kind_of_route_is_served_checked_probed_and_valid_by_the_schema(
    tmp_path: Path, project: Path, nobody: int
) -> None:
    path = tmp_path / "c.toml"
    spawned = f"codewhale+stdio:{sys.executable} -m dragoman demo-backend codewhale+stdio: -- ?model=m"
    routes = {
        "watched": (["pando+tcp://127.0.0.1:0", WS], f"pando+dir:{project}"),
        "gone": (["pando+tcp://127.0.0.1:0"], f"pando+tcp://127.0.0.1:{nobody}?rpc=1"),
        "spawned": ([f"codewhale+unix:{tmp_path}/front", WS], spawned),
        "missing": ([f"pod+unix:{tmp_path}/pod"], "codewhale+stdio:no-such-program"),
    }
    tables = [f"[[route]]\nname = '{n}'\nlisten = {listen}\nupstream = '{u}'\n" for n, (listen, u) in routes.items()]
    path.write_text("".join([*tables, "[limits]\nchildren = 2\nrestarts = 1\n"]))
    jsonschema.Draft202012Validator(schema("config")).validate(tomli.loads(path.read_text("utf-8")))
    assert dragoman("check", str(path)).stdout == f"{path}: ok, it can be served: {', '.join(routes)}\n"
    with forked_server("demo-backend", f"pando+dir:{project}") as backend:
        assert backend == f"pando+dir:{project}"
        done = dragoman("check", str(path), "--probe")
    expected = [
        f"watched: ok, pando+dir:{project}",
        f"{path}:8: route[1].upstream: pando+tcp://127.0.0.1:{nobody}?rpc=1 cannot be reached: ",
        f"spawned: ok, codewhale+stdio:{sys.executable} ... -- ?model=m",
        f"{path}:16: route[3].upstream: codewhale+stdio:no-such-program cannot be reached: ",
    ]
    assert done.returncode == 1
    told = done.stdout.splitlines()
    assert [line[: len(words)] for line, words in zip(told, expected, strict=True)] == expected
    endpoints, _ = served("serve", "--config", str(path), "--log-level", "error", lines=6)
    assert [re.sub(r":[1-9]\d*", ":0", endpoint) for endpoint in endpoints] == [
        endpoint for listen, _ in routes.values() for endpoint in listen
    ]


def test_a_listener_on_stdio_takes_no_command_and_is_the_only_one(tmp_path: Path) -> None:
    pod = f"pod+unix:{tmp_path}/pod"
    done = dragoman("bridge", "codewhale+stdio:x", pod)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "write only codewhale+stdio:" in done.stderr
    done = dragoman("bridge", "codewhale+stdio:", "codewhale+stdio:", pod)
    assert done.returncode == 2
    assert "listens there already" in done.stderr


def test_logs_as_json_are_json_lines(tmp_path: Path) -> None:
    _, log = served("demo-backend", f"pod+unix:{tmp_path}/sock", "--log-json")
    assert [json.loads(line)["event"] for line in log.splitlines()][-1] == "stopped"


def test_a_log_level_hides_lines_of_lower_levels(tmp_path: Path) -> None:
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
    assert not validator.is_valid({**table, "limits": {"patience": 3}})


def test_the_schema_of_the_config_describes_keys_as_the_example_does() -> None:
    types = schema("config")["$defs"]
    assert types["Limits"]["properties"]["heartbeat"]["description"] == (
        "seconds of silence before a WebSocket client is pinged"
    )
    for name in ("RouteTable", "Limits", "Recording", "Redact", "Ops", "Jwt"):
        assert any("description" in key for key in types[name]["properties"].values()), name


def test_an_unknown_schema_is_refused_with_the_known_ones() -> None:
    assert "'wire' is not one of events, config" in refused("schema", "wire")


def test_dialects_as_json_and_as_a_table_agree() -> None:
    rows = json.loads(dragoman("dialects", "--json").stdout)
    assert [row["dialect"] for row in rows] == list(registry.dialects())
    forms = ["pod+unix:", "pod+dir:", "pod+name:"]
    assert rows[1] == {"dialect": "pod", "generations": ["seed"], "listen": forms, "connect": forms}
    forms = ["pando+tcp:", "pando+dir:"]
    assert rows[2] == {"dialect": "pando", "generations": ["HEAD"], "listen": forms, "connect": forms}
    table = dragoman("dialects")
    assert table.returncode == 0
    for row, line in zip(rows, table.stdout.splitlines()[1:], strict=True):
        told = [row["dialect"], *(", ".join(row[key]) for key in ("generations", "listen", "connect"))]
        assert re.split(" {2,}", line.rstrip()) == told


def test_translate_exits_0_if_all_lines_are_valid_and_1_if_not() -> None:
    ways = ("translate", "--from", "pod", "--to", "smooth")
    assert dragoman(*ways, stdin='{"event":"thinking_start"}\n').returncode == 0
    assert dragoman(*ways, stdin="nonsense\n").returncode == 1


# -- streams that nobody reads ----------------------------------------------------------------------


def piped(shell: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a shell pipeline around `dragoman ...`; its first line of output is the exit code of dragoman."""
    script = re.sub(r"(?<!/)dragoman ", f"{sys.executable} -m dragoman ", shell)  # not in the path of the checkout
    return subprocess.run(["bash", "-c", script], input=stdin, capture_output=True, text=True, timeout=40, check=False)


THINKING = '{"event":"thinking_start"}\n'


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("dragoman translate --from pod --to pod 2>&3 | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}", THINKING),
        (
            "dragoman translate --from pod --to smooth 2> >(head -n 1 >/dev/null) >/dev/null; echo $?",
            '{"method":"pause"}\n',  # as an event it is a bad line, which is reported
        ),
        ("dragoman translate --from pod --to pod >&-; echo $?", THINKING),
    ],
)
def test_translate_ends_quietly_like_after_sigpipe_if_its_reader_is_gone(shell: str, line: str) -> None:
    done = piped(f"exec 3>&2; {shell}", line * 50_000)
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize(
    ("command", "stdin", "printed"),
    [
        ("translate --from pod --to pod 2>&-", THINKING, f"{THINKING}0\n"),
        ("translate --from pod --to smooth --commands 2>&-", '{"method":"pause"}\n', "0\n"),
        ("translate --from pod --to pod <&-", THINKING, "0\n"),
        (f"show {RECORDED} --json >&-", "", "141\n"),
        ("show /none 2>&-", "", "2\n"),
        ("demo >&-", "", "141\n"),
    ],
)
def test_a_command_without_a_standard_stream_reads_nothing_or_ends_quietly(
    command: str, stdin: str, printed: str
) -> None:
    done = piped(f"dragoman {command}; echo $?", stdin)
    assert (done.stdout, done.stderr) == (printed, "")


@pytest.mark.parametrize("command", ["matrix --json", "schema", "schema config", "matrix", "--help"])
def test_a_listing_whose_reader_leaves_ends_without_a_traceback(command: str) -> None:
    done = piped(f"dragoman {command} | true; echo ${{PIPESTATUS[0]}}")
    assert done.stdout in ("0\n", "141\n")
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["schema", f"diff {RECORDED} {RECORDED}", f"scan {RECORDED}"])
def test_a_full_disk_is_reported_and_exits_2(command: str) -> None:
    """1 would say that the recordings differ, or that one has a secret."""
    done = piped(f"dragoman {command} > /dev/full; echo $?")
    assert done.stdout == "2\n"
    assert done.stderr == "error: cannot write: No space left on device\n"


@pytest.mark.parametrize(
    "command",
    [
        f"export {RECORDED} -o {{}}",
        f"export {RECORDED} --format cloudevents -o {{}}",
        f"redact {RECORDED} -o {{}}",
        f"import {ROOT}/tests/data/captures/pod/02-stream-three-turns.jsonl -o {{}}",
    ],
)
def test_an_output_that_is_too_large_is_reported_and_leaves_no_file(command: str, tmp_path: Path) -> None:
    done = piped(f"ulimit -f 1; dragoman {command.format(tmp_path / 'out.jsonl')}; echo $?")
    assert (done.stdout, done.stderr) == ("2\n", "error: cannot write: File too large\n")
    assert list(tmp_path.iterdir()) == []
