"""`dragoman-pod`, launched as a TUI or a parent pod launches a pod."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.launched.pod import launch
from dragoman.gateway.launched.state_files import Conversation, KeptConversation
from dragoman.mappings.errors import ConfigError
from tests.awaited import spawned
from tests.pairs.gateway import LIMITS, serving
from tests.pairs.pod_client import PodClient
from tests.pairs.pod_parent import spawn, stop

START = 20.0  # seconds that a TUI waits for the ready line (docs/dialects/pod.md, section 2)
PROGRAM = (sys.executable, "-c", "from dragoman.gateway.entry import pod; pod()")

CONFIG = """
[limits]
drain_deadline = 60

[[route]]
name = "assistant"
listen = ["smooth+ws://127.0.0.1:1/ws"]
upstream = "{upstream}"

[[route]]
name = "other"
listen = ["smooth+ws://127.0.0.1:2/ws"]
upstream = "smooth+ws://127.0.0.1:9/ws"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(upstream=f"pod+unix:{tmp_path}/backend"))
    return {
        "DRAGOMAN_CONFIG": str(config),
        "INSOMNIA_RUNTIME_DIR": f"{tmp_path}/run",
        "INSOMNIA_DATA_DIR": f"{tmp_path}/data",
    }


# -- what is read of arguments and environment -------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((), "assistant"),
        (("--overlay", '[pod]\nname = "atlas"'), "atlas"),
        (("--overlay", 'pod.name = "atlas"'), "atlas"),
        (("--overlay", 'name = "atlas"'), "atlas"),
        (("--overlay", "[model]\nmax_tokens = 1"), "assistant"),
        (("--overlay", 'pod.name = "atlas"', "--pod", "hermes"), "hermes"),
        (("--adopt", "--callback", "/run/parent/sock", "--overlay", 'pod.name = "child"'), "child"),
        (("--pod", "hermes", "--require-pod-state", "--store", "/data"), "hermes"),
        (("--pod", "hermes", "--of-a-later-release", "x"), "hermes"),
    ],
)
def test_the_name_comes_from_the_arguments_or_else_from_the_route(
    arguments: tuple[str, ...], name: str, environment: dict[str, str]
) -> None:
    launched = launch(arguments, environment)
    (route,) = launched.config.routes
    assert (launched.name, str(route.listen[0])) == (name, f"pod+name:{name}")
    assert (route.name, route.upstream.dialect) == ("assistant", "pod")


def test_the_route_is_the_one_that_is_named(environment: dict[str, str]) -> None:
    (route,) = launch((), environment | {"DRAGOMAN_ROUTE": "other"}).config.routes
    assert route.name == "other"


def opened_session(environment: dict[str, str], *arguments: str) -> str:
    """Return the conversation that the second route is launched with; its backend has several."""
    (route,) = launch(arguments, environment | {"DRAGOMAN_ROUTE": "other"}).config.routes
    return route.listen[0].option("session")


def test_a_conversation_is_named_only_if_the_backend_has_several(environment: dict[str, str]) -> None:
    assert opened_session(environment, "--session", "u") == "u"
    (single,) = launch(("--session", "u"), environment).config.routes
    assert single.listen[0].option("session") == ""


@pytest.mark.parametrize("store", [(), ("--store", "STORE")])
def test_a_pod_continues_the_conversation_kept_for_its_name(
    store: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere" if store else tmp_path / "data/sessions"
    where = tuple(str(folder) if word == "STORE" else word for word in store)
    had = Conversation(pod_name="atlas", route="other", upstream="smooth+ws://127.0.0.1:9/ws", session="c1")
    KeptConversation(folder, "atlas").write(had)
    assert opened_session(environment, "--pod", "atlas", *where) == "c1"
    assert opened_session(environment, "--pod", "atlas", "--require-pod-state", *where) == "c1"
    assert opened_session(environment, "--pod", "atlas", "--session", "u", *where) == "u"
    assert opened_session(environment, "--pod", "hermes", *where) == "", "it never ran"
    assert opened_session(environment, "--overlay", 'pod.name = "atlas"', *where) == "", "a fresh pod of that name"


def test_a_child_begins_a_conversation_of_its_own_for_the_task_of_its_parent(environment: dict[str, str]) -> None:
    """A running child would refuse the task of another child in the same conversation."""
    child = ("--adopt", "--callback", "/run/parent/sock", "--overlay", 'pod.name = "child"')
    assert opened_session(environment, *child) == "new"


def test_restoring_a_pod_without_a_kept_conversation_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="pod state missing for atlas"):
        opened_session(environment, "--pod", "atlas", "--require-pod-state")


@pytest.mark.parametrize(
    ("arguments", "changed", "words"),
    [
        ((), {"DRAGOMAN_CONFIG": ""}, "set DRAGOMAN_CONFIG"),
        ((), {"DRAGOMAN_CONFIG": "/no/such/file"}, "/no/such/file"),
        ((), {"DRAGOMAN_ROUTE": "nope"}, "the routes are assistant, other"),
        (("--overlay", "= nonsense"), {}, "--overlay is not TOML"),
        (("--pod", "a/b"), {}, "invalid pod name"),
    ],
)
def test_the_error_names_a_missing_setting(
    arguments: tuple[str, ...], changed: dict[str, str], words: str, environment: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=words):
        launch(arguments, environment | changed)


# -- as a process ------------------------------------------------------------------------------------


@asynccontextmanager
async def pod(environment: dict[str, str], *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the program beside a backend for it; kill it at the end of the block if it still runs."""
    folder = Path(environment["DRAGOMAN_CONFIG"]).parent
    backend = demo_backend(parse(f"pod+unix:{folder}/backend"), limits=LIMITS)
    started = spawned(*PROGRAM, *arguments, env=os.environ | environment, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(3 * START), serving(backend), started as process:
        yield process


async def ready(process: asyncio.subprocess.Process) -> list[str]:
    """Return the first line on its stderr, as a TUI reads it."""
    assert process.stderr is not None
    async with asyncio.timeout(START):
        return (await process.stderr.readline()).decode().rstrip("\n").split("\t")


async def test_a_launched_pod_reports_that_it_is_ready_serves_a_client_and_ends_on_sigterm(
    environment: dict[str, str],
) -> None:
    async with pod(environment, "--overlay", 'pod.name = "atlas"') as process:
        path = f"{environment['INSOMNIA_RUNTIME_DIR']}/atlas/sock"
        assert await ready(process) == ["INSOMNIA-READY", "atlas", path]
        async with PodClient.connected(path) as client:
            await client.turn("retry")
            assert client.joined("text_delta") == "The second try worked."
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert not Path(path).parent.exists()


async def test_a_launched_pod_ends_at_once_on_shutdown_even_in_the_middle_of_a_turn(
    environment: dict[str, str],
) -> None:
    async with pod(environment, "--adopt", "--callback", "/nowhere", "--overlay", 'pod.name = "child"') as process:
        (_, _, path) = await ready(process)
        state = Path(environment["INSOMNIA_DATA_DIR"]) / "sessions" / "pods" / "child" / "metadata.json"
        assert state.exists(), "a parent inspects a child by it"
        await spawn(path, "wait")
        async with PodClient.connected(path) as watcher:
            await stop(path)
            await watcher.until(lambda: "shutdown" in watcher.names())
        async with asyncio.timeout(START):  # below the minute for which a turn may hold up an end
            assert await process.wait() == 0
        assert not Path(path).parent.exists()
        assert not state.exists()


async def test_the_name_of_a_live_pod_is_refused(environment: dict[str, str]) -> None:
    async with pod(environment, "--pod", "atlas") as process:
        (_, _, path) = await ready(process)
        second = await asyncio.create_subprocess_exec(
            *PROGRAM, "--pod", "atlas", env=os.environ | environment, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await second.communicate()
        assert second.returncode == 1
        assert "another process listens here" in errors.decode()
        async with PodClient.connected(path):
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
