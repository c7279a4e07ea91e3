"""The upstreams of a route that can stand in for each other, and those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.config.check import check, failover_faults, load
from dragoman.gateway.config.display import masked_table
from dragoman.gateway.config.lines import KeyPath
from dragoman.gateway.endpoint import Endpoint, parse


def file(folder: Path, upstream: str) -> Path:
    path = folder / "config.toml"
    path.write_text(f'[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = {upstream}\n')
    path.chmod(0o600)
    return path


def test_a_route_keeps_the_order_of_its_upstreams(tmp_path: Path) -> None:
    config = load(file(tmp_path, '["pod+unix:/a", "pod+unix:/b"]'))
    assert config.routes[0].upstreams == (parse("pod+unix:/a"), parse("pod+unix:/b"))


def test_config_show_writes_several_upstreams_as_one_key(tmp_path: Path) -> None:
    shown = masked_table(load(file(tmp_path, '["smooth+ws://a/ws?token=t0p", "smooth+ws://b/ws"]')))["route"][0]
    assert shown["upstream"] == ["smooth+ws://a/ws?token=***", "smooth+ws://b/ws"]
    assert "failover" not in shown


@pytest.mark.parametrize(
    ("upstream", "path", "said"),
    [
        ("[]", "route[0].upstream", "must contain an endpoint"),
        ("5", "route[0].upstream", "expected text in quotes, got 5"),
        ('["pod+unix:/a", 5]', "route[0].upstream[1]", "expected text in quotes, got 5"),
        ('["pod+unix:/a", "nowhere"]', "route[0].upstream[1]", "invalid endpoint 'nowhere'"),
        ('["pod+unix:/a", "pod+unix:/a"]', "route[0].upstream[1]", "pod+unix:/a: is in the list twice"),
        ('["pod+unix:/a", "smooth+ws://b/ws"]', "route[0].upstream[1]", "and the first speaks pod"),
        ('["pod+unix:/a", "pod+dir:/pods"]', "route[0].upstream[1]", "it finds a live pod by itself"),
    ],
)
def test_upstreams_that_do_not_go_together_are_refused_at_their_place(
    tmp_path: Path, upstream: str, path: str, said: str
) -> None:
    (problem,) = check(file(tmp_path, upstream)).problems
    assert (problem.line, problem.path) == (3, path)
    assert said in problem.text


def test_a_recording_is_refused_as_one_of_several_upstreams() -> None:
    upstreams: dict[KeyPath, Endpoint] = {
        ("upstream", 0): parse("pod+unix:/a"),
        ("upstream", 1): parse("replay+file:/r.jsonl"),
    }
    ((key, text),) = failover_faults(upstreams)
    assert key == ("upstream", 1)
    assert "a recording cannot be one of several upstreams" in text
