"""The route that a launched program serves, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.gateway.launched.route import choose_route, make_parser, run_program
from dragoman.mappings.errors import ConfigError, PeerError

CONFIG = """
[[route]]
name = "first"
listen = ["smooth+ws://127.0.0.1:1/ws"]
upstream = "pod+unix:/run/x"

[[route]]
name = "second"
listen = ["smooth+ws://127.0.0.1:2/ws"]
upstream = "pod+unix:/run/y"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


@pytest.mark.parametrize("program", ["pod", "codewhale"])
def test_a_launched_program_prints_its_version(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser(program).parse_args(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"dragoman {__version__}\n")


def test_the_first_route_is_served_unless_another_is_named(config: str) -> None:
    assert choose_route({"DRAGOMAN_CONFIG": config})[1].name == "first"
    assert choose_route({"DRAGOMAN_CONFIG": config, "DRAGOMAN_ROUTE": "second"})[1].name == "second"


def test_a_route_that_names_no_listener_can_be_launched(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[[route]]\nname = "first"\nupstream = "pod+unix:/run/x"\n')
    _, route = choose_route({"DRAGOMAN_CONFIG": str(path)})
    assert (route.name, route.listen) == ("first", ())


@pytest.mark.parametrize(
    ("error", "code"), [(None, 0), (OSError("taken"), 1), (PeerError("not_utf8", "y"), 1), (ConfigError("x\ny"), 2)]
)
def test_the_exit_code_tells_success_from_failure(
    error: Exception | None, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dragoman.gateway.observability.logs.configure", lambda level: None
    )  # it would hold for every test after this one

    async def serve() -> None:
        if error is not None:
            raise ExceptionGroup("tasks", [error])

    with pytest.raises(SystemExit) as ended:
        run_program(serve)
    assert ended.value.code == code
    assert capsys.readouterr().err == (f"error: {error}\n" if error is not None else "")
