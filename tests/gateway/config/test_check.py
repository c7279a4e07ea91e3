"""The problems of a configuration file: all are reported with line and key, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli

from dragoman.gateway.config.check import Problem, check, check_route, load
from dragoman.gateway.config.model import Limits, Route, RouteLimits
from dragoman.gateway.endpoint import parse
from dragoman.mappings.errors import ConfigError
from tests.data_files import DATA
from tests.gateway.config.conftest import Write
from tests.test_layout import listed

LONG = "x" * 58  # with its quotes the longest value that an error shows whole
ROUTE = '[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:/x"\n'


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each text that is parsed as TOML."""
    parsed, loads = list[str](), tomli.loads

    def note(text: str) -> dict[str, Any]:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(tomli, "loads", note)
    return parsed


def found(path: Path) -> list[tuple[int | None, str, str]]:
    """Return the problems of a file, without its name."""
    problems = check(path).problems
    assert {problem.file for problem in problems} <= {str(path)}
    return [(problem.line, problem.path, problem.text) for problem in problems]


# -- what is right ----------------------------------------------------------------------------------


def test_a_route_is_read_with_its_endpoints(write: Write) -> None:
    path = write(ROUTE + 'name = "a"\noverflow = "disconnect"\n[limits]\nheartbeat = 3\n')
    assert check(path).problems == ()
    config = load(path)
    (route,) = config.routes
    assert (route.name, route.overflow, route.upstream) == ("a", "disconnect", parse("pod+unix:/x"))
    assert route.listen == (parse("smooth+ws://127.0.0.1:0/ws"),)
    assert config.limits.heartbeat == 3.0


def test_a_route_without_a_name_is_the_default(write: Write) -> None:
    assert [route.name for route in load(write(ROUTE)).routes] == ["default"]


@pytest.mark.parametrize(
    "text",
    [
        ROUTE + ROUTE.replace("[[route]]", '[[route]]\nname = "b"'),  # port 0 is a port of its own each time
        ROUTE.replace("smooth+ws://127.0.0.1:0/ws", "pod+unix:TMP/s") + 'shutdown = "backend"\n',
        ROUTE + "[limits]\noutbox_soft = 2048\noutbox_hard = 2048\n",
        ROUTE.replace('ws"]', 'ws", "smooth+ws://127.0.0.1:8787/ws", "smooth+ws://127.0.0.2:8787/ws"]'),
    ],
)
def test_valid_combinations_are_accepted(write: Write, text: str) -> None:
    assert found(write(text)) == []


# -- what is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ROUTE + 'overflow = "explode"\n', (4, "route[0].overflow", "'explode' is not one of coalesce, disconnect")),
        (ROUTE + "listen_to = 3\n", (4, "route[0].listen_to", "unknown key 'listen_to'; did you mean 'listen'?")),
        (
            ROUTE + 'env = ["9LIVES=x"]\n',
            (4, "route[0].env[0]", "'9LIVES' is not a variable: write NAME or NAME=VALUE"),
        ),
        (ROUTE + 'name = ""\n', (4, "route[0].name", "expected text in quotes of length >= 1, got ''")),
        (ROUTE + "rlimits = { files = 3 }\n", (4, "route[0].rlimits.files", "unknown key 'files'; ")),
        ("colour = 1\n" + ROUTE, (1, "colour", "unknown key 'colour'; write one of route, limits")),
        (
            ROUTE + "[limits]\npatience = 3\n",
            (5, "limits.patience", "unknown key 'patience'; write one of memory, handshake_deadline, "),
        ),
        (
            ROUTE + "[limits]\nmax_message = 3\n",
            (5, "limits.max_message", "expected a whole number >= 1024 bytes, got 3"),
        ),
        (
            ROUTE + "[limits]\nmax_message = 1_000_000_000\n",
            (5, "limits.max_message", "expected a whole number <= 536870912 bytes, got 1000000000"),
        ),
        (ROUTE + "[limits]\nheartbeat = 0\n", (5, "limits.heartbeat", "expected a number >= 0.001 seconds, got 0")),
        (ROUTE + f"[limits]\nmemory = '{LONG}'\n", (5, "limits.memory", f"expected a whole number, got '{LONG}'")),
        (ROUTE + f"[limits]\nmemory = '{LONG}x'\n", (5, "limits.memory", f"expected a whole number, got '{LONG}x...")),
        (ROUTE + "[limits]\nmemory = 7\n", (5, "limits.memory", "expected 0 or at least 1048576 bytes, got 7")),
        (ROUTE + "[limits]\nmemory = -1\n", (5, "limits.memory", "expected a whole number >= 0 bytes, got -1")),
        (ROUTE + "[limits]\nfault_rate = 0\n", (5, "limits.fault_rate", "expected a number >= 0.001 a second, got 0")),
        (
            ROUTE + "[limits]\nsession_ttl = 1e300\n",
            (5, "limits.session_ttl", "expected a number <= 315360000.0 seconds, got 1e+300"),
        ),
        (ROUTE + "[limits]\nlinks = 0\n", (5, "limits.links", "expected a whole number >= 1, got 0")),
        (
            ROUTE + "[limits]\nlinks = 2_000_000_000\n",
            (5, "limits.links", "expected a whole number <= 1000000000, got 2000000000"),
        ),
        (ROUTE + "[limits]\nheartbeat = inf\n", (5, "limits.heartbeat", "expected a finite number, got inf")),
        ('limits = "many"\n' + ROUTE, (1, "limits", "expected a table, got 'many'")),
        ('[[route]]\nlisten = ["pod+unix:TMP/s"]\n', (1, "route[0]", "the key 'upstream' is missing")),
        ('[[route]]\nlisten = []\nupstream = "pod+unix:/x"\n', (2, "route[0].listen", "must contain an endpoint")),
        (ROUTE.replace('["', '"').replace('"]', '"'), (2, "route[0].listen", "expected a list in brackets, got ")),
        ("", (1, "", "no [[route]]: a gateway needs at least one")),
        ("route = []\n", (1, "", "no [[route]]: a gateway needs at least one")),
        ("route = 3\n", (1, "route", "expected a list in brackets, got 3")),
        ("a = 1\n[[route]\n", (2, "", "not TOML: ")),
        (ROUTE.replace("pod+unix:/x", "nowhere"), (3, "route[0].upstream", "invalid endpoint 'nowhere': write DIA")),
        (ROUTE.replace("smooth+ws:", "ws:"), (2, "route[0].listen[0]", "invalid endpoint 'ws://127.0.0.1:0/ws': ")),
        (
            ROUTE.replace("pod+", "pud+"),
            (3, "route[0].upstream", "unknown dialect 'pud'; the dialects are smooth"),
        ),
        (ROUTE.replace("/x", "/x?a=1"), (3, "route[0].upstream", "pod+unix:/x?a=1: unknown option 'a'; options of un")),
        (ROUTE.replace("/x", "/x\\u0000"), (3, "route[0].upstream", "a value must not contain a NUL character")),
        (ROUTE.replace("//127.0.0.1:0", ""), (2, "route[0].listen[0]", "smooth+ws:/ws: write host and port")),
        (ROUTE.replace("pod+unix:/x", "pando+tcp://h"), (3, "route[0].upstream", "pando+tcp://h: write host and port")),
        (ROUTE.replace("/x", "/" + "x" * 200), (3, "route[0].upstream", f"/{'x' * 200}: the path of a socket has at ")),
    ],
)
def test_a_problem_has_its_line_its_key_and_a_suggestion(
    write: Write, text: str, problem: tuple[int, str, str]
) -> None:
    ((line, path, said),) = found(write(text))
    assert (line, path) == problem[:2]
    assert said.startswith(problem[2])


@pytest.mark.parametrize("heading", ["[route]", "[routes.atlas]", "[[routes]]"])
def test_the_problem_of_a_wrong_heading_names_the_right_one(write: Write, heading: str) -> None:
    problems = check(write(f"{heading}\nlisten = []\nupstream = 'pod+unix:/x'\n")).problems
    assert [(problem.line, problem.text) for problem in problems] == [
        (1, "write [[route]], in two brackets, above each route; its name is its key `name`")
    ]


def test_a_file_with_a_thousand_problems_shows_a_hundred_and_their_number(write: Write, parses: list[str]) -> None:
    path = write("\n".join(f"[table{number}]" for number in range(1_000)))
    *shown, last = check(path).problems
    assert [problem.line for problem in shown] == [1, *range(1, 100)], "one of them is that there is no route"
    assert str(last) == f"{path}: 901 more problems of the file are not shown; correct the others first"
    assert len(parses) < 500, "each problem has the file parsed again"


def test_every_problem_is_found_in_the_order_of_the_lines(write: Write) -> None:
    text = """\
colour = 1
[[route]]
listen = ["smooth+ws://127.0.0.1:1/ws", "nowhere", 3]
upstream = "pod+unix:/x?a=1"
approvals = "maybe"
[[route]]
listen = ["smooth+ws://127.0.0.1:1/other"]
overflow = 3
[limits]
heartbeat = 0
outbox_soft = 4096
outbox_hard = 2048
"""
    where = [(line, path) for line, path, _ in found(write(text))]
    assert where == [
        (1, "colour"),
        (3, "route[0].listen[2]"),
        (3, "route[0].listen[1]"),
        (4, "route[0].upstream"),
        (5, "route[0].approvals"),
        (6, "route[1]"),
        (6, "route[1].name"),
        (7, "route[1].listen[0]"),
        (8, "route[1].overflow"),
        (10, "limits.heartbeat"),
        (11, "limits.outbox_soft"),
    ]


def test_the_error_names_a_file_that_is_missing_or_not_utf8(tmp_path: Path) -> None:
    assert found(tmp_path / "none.toml") == [(None, "", "No such file or directory")]
    assert found(tmp_path) == [(None, "", "Is a directory")]
    (tmp_path / "latin.toml").write_bytes(b"# one\n# \xff\n")
    assert found(tmp_path / "latin.toml") == [(2, "", "not TOML: this line is not UTF-8")]


def test_a_listener_without_its_directory_is_refused_as_when_it_is_served(write: Write, tmp_path: Path) -> None:
    ((_, path, text),) = found(write(ROUTE.replace("smooth+ws://127.0.0.1:0/ws", "pod+unix:TMP/none/sock")))
    assert (path, text) == (
        "route[0].listen[0]",
        f"{tmp_path}/none/sock: the socket's directory does not exist; create it first",
    )


# -- what does not go together ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listen", "ops"),
    [
        ("smooth+ws://LOCALHOST:8790/ws", "http://localhost:8790"),
        ("pod+unix:TMP/s", "unix:TMP/./s"),
        ("smooth+ws://127.0.0.1:0/ws", ""),  # the system chooses another port for each
    ],
)
def test_an_ops_port_at_the_address_of_a_listener_is_refused(write: Write, listen: str, ops: str) -> None:
    route = f'[[route]]\nlisten = ["{listen}"]\nupstream = "pod+unix:/x"\n'
    problems = found(write(f'{route}[ops]\nlisten = "{ops or "http://127.0.0.1:0"}"\n'))
    assert [(line, path) for line, path, _ in problems] == ([(5, "ops.listen")] if ops else [])
    assert all(text.endswith(": route[0].listen[0] listens there already") for _, _, text in problems)


@pytest.mark.parametrize(
    ("limits", "path", "words"),
    [
        ("outbox_hard = 2048", "limits.outbox_hard", "outbox_soft = 1048576 is more than outbox_hard = 2048"),
        ("backoff_first = 9", "limits.backoff_first", "backoff_first = 9 is more than backoff_max = 5.0"),
        ("outbox_hard = 0", "limits.outbox_hard", "expected a whole number >= 1024 bytes, got 0"),
    ],
)
def test_a_soft_limit_above_its_hard_limit_is_refused_once(write: Write, limits: str, path: str, words: str) -> None:
    assert found(write(f"{ROUTE}[limits]\n{limits}\n")) == [(5, path, words)]


# -- limits of a route ------------------------------------------------------------------------------


def test_a_route_has_its_own_limits_and_else_those_of_the_gateway(write: Write) -> None:
    config = load(write(ROUTE + "[route.limits]\nsession_ttl = 600\n[limits]\nsession_ttl = 9\nheartbeat = 3\n"))
    limits = config.routes[0].apply_limits(config.limits)
    assert (limits.session_ttl, limits.heartbeat, limits.links) == (600.0, 3.0, Limits().links)
    assert config.limits.session_ttl == 9.0


def test_a_limit_of_the_whole_gateway_is_no_limit_of_a_route(write: Write) -> None:
    names = sorted({*Limits.__struct_fields__} - {*RouteLimits.__struct_fields__})
    problems = found(write(f"{ROUTE}[route.limits]\n" + "".join(f"{name} = 2048\n" for name in names)))
    for number, (name, (line, path, text)) in enumerate(zip(names, problems, strict=True)):
        assert (line, path) == (5 + number, f"route[0].limits.{name}")
        assert text.startswith(f"unknown key '{name}' here; it belongs in [limits]")


def test_the_limits_of_a_route_are_checked_together_with_those_of_the_gateway(write: Write) -> None:
    text = f"{ROUTE}limits = {{ outbox_soft = 8192 }}\n[limits]\noutbox_soft = 2048\noutbox_hard = 4096\n"
    words = "outbox_soft = 8192 is more than outbox_hard = 4096"
    assert found(write(text)) == [(4, "route[0].limits.outbox_soft", words)]


def test_a_reload_accepts_the_file_into_which_the_gateway_records(write: Write, tmp_path: Path) -> None:
    path = write(f"{ROUTE}[recording]\npath = 'TMP/one.jsonl'\n")
    in_force = load(path)
    (tmp_path / "one.jsonl").touch()
    assert load(path, in_force=in_force).recording == in_force.recording
    with pytest.raises(ConfigError, match="exists already"):
        load(path)


# -- what strangers write ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("limits = 5", "route[0].limits", "expected a table"),
        ("session_ttl = 5", "route[0].session_ttl", "it belongs in [route.limits] or in [limits]"),
        ("[route.limit]", "route[0].limit", "did you mean 'limits'?"),
        ("[route.limits]\nmax_message = '16MiB'", "route[0].limits.max_message", "expected a whole number"),
        ("[route.limits]\nsession_ttl = 0", "route[0].limits.session_ttl", "expected a number >= 0.001 seconds"),
        ("[route.ops]", "route[0].ops", "it belongs at the top of the file"),
        ("auth = 'forward'", "route[0].auth", "it belongs at the top of the file"),
        ("token = 'abc'", "route[0].token", "write `?token=...` after"),
        ("client_ca = 'x.pem'", "route[0].client_ca", "write `?client_ca=...` after"),
        ("uid = 1000", "route[0].uid", "write `?uid=...` after"),
        ("failover = ['smooth+ws://h/ws']", "route[0].failover", "write all upstreams in one list"),
        ("publish = 'shared'", "route[0].publish", "delete the line"),
        ("[route.limits]\nstray_rate = 1", "route[0].limits.stray_rate", "delete the line"),
        ("upstreams = []", "route[0].upstreams", "did you mean 'upstream'?"),
        ("upstream_auth = 'forwrad'", "route[0].upstream_auth", "is not one of own, forward"),
        ("upstream-auth = 'own'", "route[0].upstream-auth", "did you mean 'upstream_auth'?"),
        ("roles = { local = 'send' }", "route[0].roles.local", "expected a list in brackets"),
        ("roles = { local = ['write'] }", "route[0].roles.local[0]", "'write' is not one of watch, send"),
        ("roles = { alice = ['send'] }", "route[0].roles.alice", "invalid principal 'alice': write token:NAME"),
        ("roles = ['send']", "route[0].roles", "expected a table"),
        ("rlimits = { nofiles = 3 }", "route[0].rlimits.nofiles", "did you mean 'nofile'?"),
        ("share = 'private'", "route[0].share", "is not one of auto, all, owner"),
        ("[tls]", "tls", "write `?cert=FILE&key=FILE`"),
        ("[jwt]", "jwt", "it belongs in [auth]"),
        ("[record]", "record", "it belongs in [[route]]"),
        ("[opps]", "opps", "did you mean 'ops'?"),
        ("[auth]\ntokens = ['x']", "auth.tokens", "expected a table"),
        ("[auth]\nsecret = 'x'", "auth.secret", "it belongs in [auth.jwt]"),
        ("[principals]\nalice = 'token:alice'", "principals.alice", "expected a list in brackets"),
        ("[principals]\nalice = ['alice']", "principals.alice[0]", "write token:NAME, jwt:NAME, uid:NAME or cert:NAME"),
        ("[ops]\nlisten = 'unix:/o'\ntokens = 'x'", "ops.tokens", "expected a list in brackets"),
        (
            "[ops]\nlisten = 'http://[::1]:0'\nhosts = ['a.example:80']",
            "ops.hosts[0]",
            "write only a name of this machine",
        ),
        ("[ops]\nlisten = 'http://[::1]:0'\nhosts = ['*']", "ops.hosts[0]", "write only a name of this machine"),
        ("[recording]\npath = 'r/'\nkeep_age = '30d'", "recording.keep_age", "expected a number, got"),
        ("[recording]\npath = ''", "recording.path", "write a folder, or a new file"),
        ("file_roots = ['/', '${DRAGOMAN_UNSET:-}']", "route[0].file_roots[1]", "write a folder; without file_roots"),
        ("[recording]\npath = 'r/'\nredact = false", "recording.redact", "expected a table"),
    ],
)
def test_a_typical_configuration_error_is_one_line_with_its_key_and_what_to_write(
    write: Write, text: str, key: str, words: str
) -> None:
    ((line, path, said),) = found(write(f"{ROUTE}{text}\n"))
    assert line is not None
    assert line >= 4
    assert path == key
    assert words in said


def test_a_folder_of_attached_files_that_does_not_exist_is_a_warning(write: Write, tmp_path: Path) -> None:
    checked = check(write(f'{ROUTE}file_roots = ["{tmp_path}", "nowhere"]\n'))
    (problem,) = checked.problems
    assert (problem.level, problem.path) == ("warning", "route[0].file_roots[1]")
    assert f"there is no folder {tmp_path}/" in problem.text


def test_children_of_a_route_in_a_file_do_not_get_the_environment_of_the_gateway(write: Write) -> None:
    assert not load(write(ROUTE)).inherit_env


def test_a_token_of_the_ops_port_is_the_value_of_the_variable_that_it_names(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{ROUTE}[ops]\nlisten = 'http://127.0.0.1:0'\ntokens = ['env:DRAGOMAN_TEST_TOKEN']\n"
    ((_line, path, said),) = found(write(text))
    assert (path, said) == ("ops.tokens[0]", "the environment variable DRAGOMAN_TEST_TOKEN is not set")
    monkeypatch.setenv("DRAGOMAN_TEST_TOKEN", "a-long-random-token")
    ops = load(write(text)).ops
    assert ops is not None
    assert ops.tokens == ("a-long-random-token",)


# -- references -------------------------------------------------------------------------------------


def test_a_missing_variable_is_the_only_error_of_its_key(write: Write) -> None:
    path = write(ROUTE.replace(":0/", ":${DRAGOMAN_TEST_NONE}/"))
    text = "the environment variable DRAGOMAN_TEST_NONE is not set; set it, or write ${DRAGOMAN_TEST_NONE:-default}"
    assert found(path) == [(2, "route[0].listen[0]", text)]


def test_a_missing_variable_is_the_error_of_a_secret_whose_file_it_names(write: Write) -> None:
    ((_, key, text),) = found(write(ROUTE + '[auth.tokens]\nalice = "file:${DRAGOMAN_TEST_NONE}/alice"\n'))
    assert key == "auth.tokens.alice"
    assert text.startswith("the environment variable DRAGOMAN_TEST_NONE is not set")


def test_a_file_of_a_reference_is_searched_beside_the_configuration(write: Write, tmp_path: Path) -> None:
    (tmp_path / "name").write_text("atlas\n", "utf-8")
    assert load(write(ROUTE + 'name = "${file:name}"\n')).routes[0].name == "atlas"


def test_an_error_never_shows_the_value_of_a_reference(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("t0psecret", "utf-8")
    ((_, _, text),) = found(write(ROUTE + 'overflow = "${file:secret}"\n'))
    assert text == "'${file:secret}' is not one of coalesce, disconnect"


def test_a_token_from_a_variable_is_no_warning_in_a_file_for_everybody(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST_TOKEN", "t0psecret")
    path = write(TOKEN.replace("t0p-secret", "${DRAGOMAN_TEST_TOKEN}"))
    path.chmod(0o644)
    assert check(path).problems == ()


# -- relative paths ---------------------------------------------------------------------------------


def test_relative_paths_start_at_the_folder_of_the_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x", "utf-8")
    (tmp_path / "a").mkdir()
    config = load(
        write(
            '[[route]]\nlisten = ["pod+unix:a/s", "pod+name:n"]\nupstream = "smooth+ws://h/ws?token=file:token"\n'
            'file_roots = ["src", "/abs"]\n[recording]\npath = "rec/"\n'
        )
    )
    (route,) = config.routes
    assert route.listen == (parse(f"pod+unix:{tmp_path}/a/s"), parse("pod+name:n"))
    assert route.upstream == parse(f"smooth+ws://h/ws?token=file:{tmp_path}/token")
    assert route.file_roots == (f"{tmp_path}/src", "/abs")
    assert config.recording is not None
    assert config.recording.path == f"{tmp_path}/rec/"


def test_a_token_of_a_missing_file_is_an_error_at_its_key(write: Write, tmp_path: Path) -> None:
    ((line, path, text),) = found(write(ROUTE.replace("pod+unix:/x", "smooth+ws://h/ws?token=file:none")))
    assert (line, path) == (3, "route[0].upstream")
    assert text.endswith(f"token: the file {tmp_path}/none cannot be read: No such file or directory")


# -- any file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "a=" + "{a=" * 100_000, "a=" + "9" * 10_000])
def test_toml_that_cannot_be_parsed_is_one_error(write: Write, text: str) -> None:
    assert len(found(write(text))) == 1


def test_a_byte_order_mark_before_the_file_is_ignored(write: Write) -> None:
    assert found(write("\ufeff" + ROUTE + "colour = 1\n"))[0][:2] == (ROUTE.count("\n") + 1, "route[0].colour")
    assert load(write("\ufeff" + ROUTE)).routes[0].name == "default"


def test_an_endless_device_file_is_refused_as_configuration() -> None:
    assert found(Path("/dev/zero")) == [(None, "", "it has more than 1,048,576 bytes")]


def test_a_problem_in_a_long_file_is_found_with_few_parses(write: Write, parses: list[str]) -> None:
    path = write(ROUTE + "\n" * 5_000 + "a = 1\n")
    assert [line for line, *_ in found(path)] == [5_004]
    assert len(parses) < 20


# -- warnings ---------------------------------------------------------------------------------------

TOKEN = ROUTE.replace("pod+unix:/x", "smooth+ws://127.0.0.1:1/ws?token=t0p-secret")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_token_that_others_may_read_is_a_warning(write: Write, mode: int) -> None:
    path = write(TOKEN)
    path.chmod(mode)
    checked = check(path)
    (problem,) = checked.problems
    assert (problem.level, problem.line, problem.path) == ("warning", 3, "route[0].upstream")
    assert f"chmod 600 {path}" in problem.text
    assert checked.errors == []
    assert checked.config is not None


def test_a_secret_in_a_variable_of_a_child_that_others_may_read_is_a_warning(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST_KEY", "s3cret")
    path = write(f"{ROUTE}env = ['RUST_LOG=info', 'A_KEY', 'B_API_KEY=s3cret', 'C_API_KEY=${{DRAGOMAN_TEST_KEY}}']\n")
    path.chmod(0o644)
    (problem,) = check(path).problems
    assert (problem.level, problem.path) == ("warning", "route[0].env[2]")


def test_a_token_file_readable_only_by_its_owner_is_no_problem(write: Write) -> None:
    assert check(write(TOKEN)).problems == ()


def test_no_problem_contains_a_token(write: Write) -> None:
    path = write(TOKEN.replace("?token", "?tokn=1&token"))
    path.chmod(0o644)
    assert "t0p" not in "".join(map(str, check(path).problems))


# -- how it is said ---------------------------------------------------------------------------------


def test_a_problem_as_json_always_has_its_level() -> None:
    assert msgspec.to_builtins(Problem(file="c.toml", line=1, path="a", text="no"))["level"] == "error"


def test_a_problem_is_one_line_in_the_form_that_editors_follow() -> None:
    problem = Problem(file="c.toml", line=12, path="route[0].approvals", text="no")
    assert str(problem) == "c.toml:12: route[0].approvals: no"
    assert str(Problem(file="c.toml", line=None, path="", text="no")) == "c.toml: no"
    assert str(Problem(file="c.toml", line=1, path="a", text="no", level="warning")) == "c.toml:1: warning: a: no"


def test_loading_an_invalid_file_raises_all_errors_one_per_line(write: Write) -> None:
    path = write(ROUTE + "a = 1\nb = 2\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).split("\n") == [str(problem) for problem in check(path).problems]
    assert len(check(path).problems) == 2


def test_a_route_of_the_command_line_is_checked_like_one_of_a_file() -> None:
    listen = parse("smooth+ws://127.0.0.1:9/ws")
    check_route(Route(name="r", listen=(listen,), upstream=parse("pod+unix:/x")))
    with pytest.raises(ConfigError, match="listens there already"):
        check_route(Route(name="r", listen=(listen, listen), upstream=parse("pod+unix:/x")))
    with pytest.raises(ConfigError, match="unknown dialect"):
        check_route(Route(name="r", listen=(listen,), upstream=parse("pud+unix:/x")))


# -- what is redacted -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "path", "words"),
    [
        ("patterns = { Customer = 'CUST-[0-9]{8}' }", "recording.redact.patterns.Customer", "lower-case letters"),
        ("patterns = { customer = 'CUST-[0-9' }", "recording.redact.patterns.customer", "invalid regular expression"),
        ("patterns = { customer = 'CUST-[0-9]+' }", "recording.redact.patterns.customer", "can match over"),
        ("patterns = { customer = '[0-9]{0,8}' }", "recording.redact.patterns.customer", "matches an empty text"),
        ("patterns = { customer = '(?:a{1,9}){1,9}' }", "recording.redact.patterns.customer", "more than 256 ways"),
        ("patterns = { customer = '(a|aa){1,64}b' }", "recording.redact.patterns.customer", "more than 256 ways"),
        ("paths = ['$.a', 'a.b']", "recording.redact.paths[1]", "invalid JSON path"),
        ("paths = ['$[*]']", "recording.redact.paths[0]", "at least one key"),
        ("salt = 'short'", "recording.redact.salt", "can be guessed"),
        ("window_seconds = 0", "recording.redact.window_seconds", "expected a number"),
        ("pattern = {}", "recording.redact.pattern", "did you mean 'patterns'?"),
    ],
)
def test_an_invalid_redaction_pattern_is_reported(write: Write, line: str, path: str, words: str) -> None:
    problems = found(write(f'{ROUTE}[recording]\npath = "TMP/rec/"\n[recording.redact]\n{line}\n'))
    ((number, where, text),) = problems
    assert (number, where) == (7, path)
    assert words in text


def test_a_salt_that_others_may_read_is_a_warning(write: Write) -> None:
    path = write(f'{ROUTE}[recording]\npath = "TMP/rec/"\n[recording.redact]\nsalt = "{"0123456789abcdef"}"\n')
    assert check(path).problems == ()
    path.chmod(0o644)
    (problem,) = check(path).problems
    assert (problem.level, problem.path) == ("warning", "recording.redact.salt")


# -- files of earlier releases ---------------------------------------------------------------------


FILES = sorted((DATA / "config").glob("*.toml"))
EXPLAINED = ("was renamed to ", "was removed in version ")  # and the version, and what to write instead


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_key_of_an_earlier_release_is_accepted_or_its_error_explains_the_change(path: Path) -> None:
    """Each release adds a file with all its keys; a renamed or removed key gets its own error text."""
    unexplained = [str(error) for error in check(path).errors if not any(words in error.text for words in EXPLAINED)]
    assert not unexplained, listed(unexplained)


def test_the_file_of_each_release_is_kept() -> None:
    assert [path.stem for path in FILES] == ["0.1.0"]
