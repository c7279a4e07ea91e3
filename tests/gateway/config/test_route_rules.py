"""Endpoints and keys of routes that can be used together, and those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.config.check import check, load
from dragoman.gateway.config.display import masked_table
from dragoman.gateway.config.lines import KeyPath
from dragoman.gateway.config.route_rules import Draft, route_faults
from dragoman.gateway.endpoint import Endpoint, parse
from tests.gateway.config.conftest import Write
from tests.gateway.config.test_check import ROUTE, found


def test_the_second_route_with_the_same_name_is_refused(write: Write) -> None:
    assert found(write(ROUTE + ROUTE)) == [
        (4, "route[1].name", "duplicate route name 'default'; give each route its own `name`")
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("smooth+ws://127.0.0.1:8787/ws", "smooth+ws://127.0.0.1:8787/ws"),
        ("smooth+ws://127.0.0.1:8787/ws", "smooth+ws://127.0.0.1:8787/other"),
        ("smooth+ws://localhost:8787/ws", "smooth+ws://LOCALHOST:8787/ws"),
        ("smooth+ws://127.0.0.1:8787/ws", "smooth+ws://localhost:8787/ws"),
        ("smooth+ws://[::1]:8787/ws", "smooth+ws://localhost:8787/ws"),
        ("smooth+ws://127.0.0.1:8787/ws", "pando+tcp://127.0.0.1:8786"),
        ("pod+unix:TMP/s", "pod+unix:TMP/x/../s"),
        ("pando+tcp://127.0.0.1:48254", "pando+tcp://127.0.0.1:48254?rpc=1"),
        ("pando+dir:/", "pando+tcp://127.0.0.1:48254"),  # the ports of "/" (docs/dialects/pando.md, section 1.1)
    ],
)
def test_two_listeners_at_one_address_are_refused(write: Write, tmp_path: Path, first: str, second: str) -> None:
    (tmp_path / "x").mkdir()
    text = f'[[route]]\nlisten = ["{first}"]\nupstream = "pod+unix:/x"\n'
    problems = found(write(text + f'[[route]]\nname = "b"\nlisten = ["{second}"]\nupstream = "pod+unix:/x"\n'))
    ((line, path, said),) = problems
    assert (line, path) == (6, "route[1].listen[0]")
    assert said.endswith(": route[0].listen[0] listens there already")


@pytest.mark.parametrize(
    ("listen", "upstream"),
    [
        ("pod+unix:TMP/s", "pod+unix:TMP/s"),
        ("smooth+ws://127.0.0.1:8787/ws", "smooth+ws://localhost:8787/ws"),
        ("smooth+ws://localhost:8787/ws", "smooth+ws://[::1]:8787/ws"),
    ],
)
def test_a_route_that_dials_its_own_listener_is_refused(write: Write, listen: str, upstream: str) -> None:
    ((line, path, said),) = found(write(f'[[route]]\nlisten = ["{listen}"]\nupstream = "{upstream}"\n'))
    assert (line, path) == (2, "route[0].listen[0]")
    assert "so it would be its own backend" in said


def test_routes_that_lead_to_each_other_are_refused_and_a_chain_of_routes_is_not(write: Write) -> None:
    chain = "".join(
        f'[[route]]\nname = "{name}"\nlisten = ["pod+unix:TMP/{name}"]\nupstream = "pod+unix:TMP/{upstream}"\n'
        for name, upstream in (("a", "b"), ("b", "c"), ("c", "d"))
    )
    assert found(write(chain)) == []
    loop = chain.replace("TMP/d", "TMP/b")  # a leads into the loop of b and c, but is no part of it
    (first, at_b, told_b), (second, at_c, told_c) = found(write(loop))
    assert ((first, at_b), (second, at_c)) == ((7, "route[1].listen[0]"), (11, "route[2].listen[0]"))
    assert told_b.endswith(": this route's `upstream` leads here by route 'c', so it would be its own backend")
    assert told_c.endswith(": this route's `upstream` leads here by route 'b', so it would be its own backend")


def test_ending_the_backend_without_a_listener_of_its_owner_is_refused(write: Write) -> None:
    assert found(write(ROUTE + 'shutdown = "backend"\n')) == [
        (
            4,
            "route[0].shutdown",
            (
                "'backend' needs a listener that only its owner can reach: pod+unix:..., pod+dir:..., pod+name:..., "
                "codewhale+stdio:..., codewhale+unix:..."
            ),
        )
    ]
    assert found(write(ROUTE.replace('ws"]', 'ws", "pod+unix:TMP/s"]') + 'shutdown = "backend"\n')) == []


@pytest.mark.parametrize("upstream", ["smooth+ws://127.0.0.1:1/ws", "pando+tcp://127.0.0.1:4"])
def test_ending_a_backend_that_has_no_shutdown_is_refused(write: Write, upstream: str) -> None:
    text = ROUTE.replace('ws"]', 'ws", "pod+unix:TMP/s"]').replace("pod+unix:/x", upstream)
    told = f"'backend': a {upstream.partition('+')[0]} backend cannot be ended by its clients"
    assert found(write(text + 'shutdown = "backend"\n')) == [(4, "route[0].shutdown", told)]


def test_ending_the_backend_over_a_listener_open_to_everybody_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No dialect that can say it has such a listener yet.
    monkeypatch.setattr(Endpoint, "is_owner_only", False)
    text = ROUTE.replace("smooth+ws://127.0.0.1:0/ws", "pod+unix:TMP/s") + 'shutdown = "backend"\n'
    assert [(line, path) for line, path, _ in found(write(text))] == [
        (2, "route[0].listen[0]"),
        (4, "route[0].shutdown"),
    ]


@pytest.mark.parametrize(("name", "words"), [("a/b", "invalid pod name 'a/b'"), ("x" * 100, "at most 107 bytes")])
def test_the_name_of_a_route_must_fit_its_folder_in_a_directory_of_pods(write: Write, name: str, words: str) -> None:
    text = f'[[route]]\nname = "{name}"\nlisten = ["pod+dir:/run/pods"]\nupstream = "pod+unix:/run/x/sock"\n'
    ((line, path, said),) = found(write(text))
    assert (line, path) == (2, "route[0].name")
    assert words in said


# -- several upstreams of a route -------------------------------------------------------------------


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
    ((key, text),) = route_faults([Draft(at=(), table={}, listen={}, upstreams=upstreams)])
    assert key == ("upstream", 1)
    assert "a recording cannot be one of several upstreams" in text
