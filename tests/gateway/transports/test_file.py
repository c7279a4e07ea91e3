"""The endpoints `replay+file:`: upstreams without a connection."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.config.check import check
from dragoman.gateway.config.startup import probe
from dragoman.gateway.endpoint import parse
from dragoman.mappings.errors import ConfigError
from tests.gateway.recording.lines import FROZEN
from tests.gateway.replay.recording_builder import OF_A_POD, RecordingBuilder

RECORDING = FROZEN / "v4.jsonl"


def test_a_recording_can_be_an_upstream_but_no_listener() -> None:
    endpoint = parse(f"replay+file:{RECORDING}?speed=4")
    registry.check_upstream(endpoint)
    assert registry.played(endpoint)
    with pytest.raises(ConfigError, match="dragoman cannot listen on this"):
        registry.check_listen(endpoint)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replay+file:/nowhere/a.jsonl", "No such file"),
        (f"replay+file:{__file__}", "is not a recording"),
        (f"replay@seed+file:{RECORDING}", "leave out the generation"),
        (f"replay+ws:{RECORDING}", "dragoman cannot connect to this"),
        (f"replay+file:{RECORDING}?token=x", "unknown option 'token'; options of file: auto, explain, idle_cap, mode"),
        (
            f"replay+file:{RECORDING}?mode=spy&upstream=pod%2Bdir:/run/pods",
            "a recording must be one pod",
        ),
        (f"replay+file:{RECORDING}?mode=spy&upstream=replay%2Bfile:{RECORDING}", "must be live, not another"),
        (f"replay+file:{RECORDING}?mode=spy&upstream=pud%2Bunix:/p", "unknown dialect 'pud'"),
    ],
)
def test_the_problems_of_a_recording_are_reported(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.check_upstream(parse(text))
    assert words in str(caught.value)


async def test_a_route_may_replay_a_recording_and_a_probe_of_it_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[[route]]\nlisten = ["pod+unix:{tmp_path}/sock"]\nupstream = "replay+file:{RECORDING}"\n')
    config = check(file).config
    assert config is not None
    assert await probe(config) == [""]


def test_a_replay_has_the_capabilities_of_the_recorded_backend_and_opens_conversations() -> None:
    known = registry.upstream(parse(f"replay+file:{RECORDING}"))
    assert (known.name, known.single_session, known.session_ref) == ("pod", False, None)
    assert registry.upstream(parse(f"replay+file:{RECORDING}?auto=yes")).single_session
    assert registry.upstream(parse("pod+unix:/p")) is registry.dialect("pod")


def test_a_replay_with_a_live_backend_has_no_more_capabilities_than_that_backend() -> None:
    live = "mode=spy&upstream=smooth%2Bws://127.0.0.1:9/ws"
    assert registry.upstream(parse(f"replay+file:{RECORDING}?{live}")).name == "smooth"


@pytest.mark.parametrize("upstream", ["", "demo", "pud+unix:/p"])
def test_a_recording_without_a_backend_counts_as_one_of_a_pod(tmp_path: Path, upstream: str) -> None:
    path = RecordingBuilder(structs.replace(OF_A_POD, upstream=upstream)).turn("one").write(tmp_path)
    assert registry.upstream(parse(f"replay+file:{path}")).name == "pod"


def test_a_recording_without_a_backend_but_with_one_dialect_counts_as_one_of_that_dialect(tmp_path: Path) -> None:
    header = structs.replace(OF_A_POD, upstream="capture:a.jsonl", dialects={"smooth": ""})
    assert (
        registry.upstream(parse(f"replay+file:{RecordingBuilder(header).turn('one').write(tmp_path)}")).name == "smooth"
    )
