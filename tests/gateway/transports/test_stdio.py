"""The endpoints `stdio:`: their errors, which child is spawned where, and how often it is started again."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from dragoman.adapters.stdio import Children
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports.stdio import STDIO, child_starter
from dragoman.mappings.errors import ConfigError
from tests.services import spawner_of
from tests.transport_reader import receive, receive_all

DIES = "import sys; print('bye', flush=True)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("codewhale+stdio:", "write the command that starts the backend"),
        ("codewhale+stdio:x 'y", "No closing quotation"),
        ("codewhale+stdio:x -- ?cwd=rel", "not the absolute path of a folder"),
        ("codewhale+stdio:x -- ?cwd=/no/such/folder", "not the absolute path of a folder"),
        ("codewhale+stdio:x -- ?token=t", "unknown option 'token'"),
    ],
)
def test_a_command_that_cannot_be_spawned_is_refused_at_the_check(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        registry.check_upstream(parse(text))


def test_a_stdio_listener_is_our_own_stdin_and_stdout_and_takes_no_command() -> None:
    registry.check_listen(parse("codewhale+stdio:"))
    registry.check_place(parse("codewhale+stdio:"))
    with pytest.raises(ConfigError, match=r"write only codewhale\+stdio:"):
        registry.check_place(parse("codewhale+stdio:x"))


def test_only_one_listener_may_use_stdin_and_any_number_of_upstreams_may_be_children() -> None:
    ours, child = parse("codewhale+stdio:"), parse("codewhale+stdio:x")
    assert registry.places(ours) != ()
    assert registry.places(child) == ()


async def test_a_child_is_spawned_in_the_folder_of_its_endpoint_with_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST", "kept")
    code = "import os; print(os.getcwd(), os.environ['DRAGOMAN_TEST'])"
    endpoint = parse(f'codewhale+stdio:{sys.executable} -c "{code}" -- ?cwd={tmp_path}')
    async with Children(1) as children:
        assert STDIO.dial is not None
        transport = await STDIO.dial(endpoint, Limits(), spawner_of(children))()
        assert await receive(transport) == [f"{tmp_path} kept".encode()]
        await transport.close()


async def test_a_child_that_ends_too_often_is_not_restarted_until_the_window_is_over() -> None:
    now = 0.0
    limits = Limits(restarts=2, restart_window=60.0)
    async with Children(1) as children:
        start = child_starter([sys.executable, "-c", DIES], None, limits, spawner_of(children), lambda: now)
        for _ in range(3):  # the first start is no restart
            child = await start()
            await receive_all(child)
            await child.close()
            now += 10.0
        with pytest.raises(
            OSError, match=r"the child ended 3 times within 60 s \(`restarts`\); it is restarted in 30 s"
        ):
            await start()
        now = 60.0
        await (await start()).close()


async def test_a_child_that_the_gateway_ended_in_order_may_be_started_again_at_once() -> None:
    limits = Limits(restarts=1, restart_window=60.0)
    async with Children(1) as children:
        start = child_starter([sys.executable, "-c", "input()"], None, limits, spawner_of(children), lambda: 0.0)
        for _ in range(4):
            await (await start()).close()


async def test_a_child_above_the_limit_is_refused_as_busy() -> None:
    async with Children(1) as children:
        start = child_starter([sys.executable, "-c", "input()"], None, Limits(), spawner_of(children), lambda: 0.0)
        first = await start()
        with pytest.raises(OSError, match="busy: all 1 child processes are in use") as caught:
            await start()
        assert caught.value.errno == errno.EBUSY
        await first.close()


async def test_the_error_names_a_program_that_does_not_exist() -> None:
    async with Children(1) as children:
        with pytest.raises(OSError, match="no-such-program"):
            await child_starter(["no-such-program"], None, Limits(), spawner_of(children), lambda: 0.0)()
