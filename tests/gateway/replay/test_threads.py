"""A recording served, or driven, beside a test that has no loop, or another one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.replay.driving import DrivingError
from dragoman.gateway.replay.threads import driven, listen_endpoint, served
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.errors import ConfigError
from tests.gateway.replay.recording_builder import RecordingBuilder


def tape(folder: Path) -> Path:
    return RecordingBuilder().turn("one", TextDelta(text="1")).write(folder)


def test_it_listens_while_the_block_lasts(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    with served(tape(tmp_path), parse(f"pod+unix:{path}")) as replay:
        assert (replay.endpoint, replay.url) == (f"pod+unix:{path}", f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert client.recv(12).startswith(b'{"event":')
    assert not path.exists()


def test_what_is_in_the_way_is_raised_here(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = parse(f"smooth+ws://127.0.0.1:{taken.getsockname()[1]}/ws")
        with pytest.raises(OSError, match="in use"), served(tape(tmp_path), place):
            raise AssertionError("somebody listens there")
    with pytest.raises(ConfigError), served(tmp_path / "none", parse("smooth+ws://127.0.0.1:0/ws")):
        raise AssertionError("there is no such file")


@pytest.mark.parametrize("dialect", ["smooth", "pod", "pando", "codewhale"])
def test_a_dialect_alone_is_a_free_place_of_it(dialect: str, tmp_path: Path) -> None:
    with served(tape(tmp_path), listen_endpoint(dialect, tmp_path)) as replay:
        assert replay.endpoint.startswith(f"{dialect}+")
    with pytest.raises(ConfigError, match="write an endpoint, or one of smooth, pod"):
        listen_endpoint("pud", tmp_path)


def test_a_backend_is_driven_from_here(tmp_path: Path) -> None:
    recording = tape(tmp_path)
    with served(recording, parse(f"pod+unix:{tmp_path}/sock"), speed="instant") as replay:
        assert driven(recording, replay.endpoint).same
        assert [report.outcome for report in replay.reports] == ["exact"]
        assert replay.divergences == []


def test_what_it_cannot_be_driven_for_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(DrivingError, match="opened no session"):
        driven(tape(tmp_path), "smooth+ws://127.0.0.1:9/ws", 5)
