"""`dragoman-codewhale`, launched as an editor launches its codewhale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.launched.codewhale import launch
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import serving

PROGRAM = (sys.executable, "-c", "from dragoman.gateway.entry import codewhale; codewhale()")
USUAL = ("app-server", "--stdio", "--config", "/home/user/.codewhale/config.toml")

CONFIG = """
[[route]]
name = "assistant"
listen = ["smooth+ws://127.0.0.1:1/ws"]
upstream = "pod+unix:{folder}/sock"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(folder=tmp_path))
    return {"DRAGOMAN_CONFIG": str(config)}


@pytest.mark.parametrize(
    "arguments",
    [USUAL, ("app-server", "--stdio"), (*USUAL, "--of-a-later-release", "x"), ("--profile", "work", *USUAL)],
)
def test_the_route_is_served_on_stdin_and_stdout(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    (route,) = launch(arguments, environment).routes
    assert (route.name, [str(endpoint) for endpoint in route.listen]) == ("assistant", ["codewhale+stdio:"])


@pytest.mark.parametrize("arguments", [(), ("app-server",), ("exec", "--stdio")])
def test_arguments_other_than_a_server_on_stdio_are_wrong_usage(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        launch(arguments, environment)
    assert ended.value.code == 2


def test_without_a_configuration_it_exits_2_with_one_line() -> None:
    done = subprocess.run(
        (*PROGRAM, *USUAL), capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: set DRAGOMAN_CONFIG")


async def test_an_unchanged_codewhale_client_talks_to_a_pod_through_dragoman_codewhale(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CONFIG", environment["DRAGOMAN_CONFIG"])
    async with (
        serving(demo_backend(parse(f"pod+unix:{tmp_path}/sock"))),
        CodewhaleClient.spawned((*PROGRAM, *USUAL)) as client,
    ):
        answer = await client.answer(await client.say("retry"))
        assert answer["result"]["status"] == "accepted"
        assert client.text() == "The second try worked."
        assert await client.call("shutdown") == {"ok": True, "status": "stopped"}
