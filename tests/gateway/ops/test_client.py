"""The connection of a command to the ops port, and how it is found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.gateway.ops.client import GatewayRefusalError, OpsClient, find_ops_port
from dragoman.mappings.errors import ConfigError
from tests.gateway.ops.running import operated


async def test_an_answer_is_decoded_and_a_refusal_is_raised_with_its_reason() -> None:
    async with operated() as port:
        connection = find_ops_port(None, port.url)
        assert (await asyncio.to_thread(connection.ask, "/livez"))["live"] is True
        with pytest.raises(GatewayRefusalError, match="there is no session 'x'"):
            await asyncio.to_thread(connection.ask, "/sessions/x")


def test_the_error_names_a_configuration_without_an_ops_port(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[[route]]\nlisten = ["pod+unix:{tmp_path}/s"]\nupstream = "pod+unix:{tmp_path}/u"\n')
    with pytest.raises(ConfigError, match=r"has no \[ops\]"):
        find_ops_port(file, None)


def test_a_port_chosen_by_the_system_needs_the_option_ops() -> None:
    with pytest.raises(ConfigError, match="its first log line has the URL for --ops"):
        find_ops_port(None, "http://127.0.0.1:0")


def test_a_gateway_whose_recording_is_one_file_is_found_by_its_configuration(tmp_path: Path) -> None:
    recording = tmp_path / "one.jsonl"
    recording.touch()
    file = tmp_path / "dragoman.toml"
    tables = f'[recording]\npath = "{recording}"\n[ops]\nlisten = "http://127.0.0.1:8790"\n'
    file.write_text(tables + f'[[route]]\nupstream = "pod+unix:{tmp_path}/u"\n')
    assert isinstance(find_ops_port(file, None), OpsClient)
