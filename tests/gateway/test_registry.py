"""The dialects and their transports, and that each dialect is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

from dragoman.adapters.stdio import Children
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.mappings.canonical import Batch, Command, Event, Unmapped
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError
from dragoman.mappings.rules import Emulated, Nothing
from tests.gateway.listener_callbacks import callbacks
from tests.gateway.recording.lines import FROZEN
from tests.samples import full
from tests.services import spawner_of

DIALECTS = registry.dialects()


# -- completeness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize(("way", "union"), [("events", Event), ("commands", Command)])
def test_each_canonical_type_has_exactly_one_entry_toward_each_dialect(dialect: Dialect, way: str, union: Any) -> None:
    table = getattr(dialect, way).from_canonical
    assert set(table.entries) == set(table.functions) == set(get_args(union))


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize(("way", "union"), [("events", Event), ("commands", Command)])
def test_each_rule_from_a_dialect_gives_canonical_types(dialect: Dialect, way: str, union: Any) -> None:
    table = getattr(dialect, way).to_canonical
    assert {kind for entry in table.entries.values() for kind in entry.produces} <= set(get_args(union))


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_each_type_without_a_form_has_a_reason(dialect: Dialect) -> None:
    for table in (dialect.events.from_canonical, dialect.commands.from_canonical):
        for source, entry in table.entries.items():
            match entry.fidelity:
                case Nothing(why=words) | Emulated(how=words):
                    assert words, source


@pytest.mark.parametrize("kind", [k for k in get_args(Event) if k.visibility == "internal" and k is not Unmapped])
def test_an_internal_event_writes_nothing_to_smooth_in_a_turn(kind: Any) -> None:
    projection = DIALECTS["smooth"].projection("r", "")
    rendered = projection.render(Batch(session="s", epoch=1, first_seq=0, turn="t", events=[full(kind)]))
    assert (rendered.frames, [loss.kind for loss in rendered.losses]) == ([], [kind.__name__])


def test_each_dialect_can_be_listened_on_and_dialled() -> None:
    assert set(registry.TRANSPORTS) == set(DIALECTS)
    for name in DIALECTS:
        assert registry.forms(name, listen=True)
        assert registry.forms(name, listen=False)


# -- look-up ----------------------------------------------------------------------------------------


class Entry:
    """Stands for an entry point of the package `acme-dialects`; `load` returns what it names, or fails."""

    value = "acme:DIALECT"

    def __init__(self, name: str, load: Callable[[], object]) -> None:
        self.name = name
        self.load = load


def add_entries(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda: list(entries))
    monkeypatch.setattr(registry, "_IMPORTED", {})


def broken() -> object:
    raise ModuleNotFoundError("No module named 'nosuch'")


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (broken, "ModuleNotFoundError: No module named 'nosuch'"),
        (dict, "acme:DIALECT is no Dialect"),
        (lambda: DIALECTS["pod"], "its record has the name 'pod'"),
    ],
)
def test_a_dialect_of_another_package_that_cannot_be_used_is_an_error_which_names_it(
    load: Callable[[], object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_entries(monkeypatch, Entry("acme", load))
    with pytest.raises(ConfigError) as caught:
        registry.dialects()
    told = "the dialect 'acme' of another package cannot be used"
    assert str(caught.value) == f"{told}: {why}; repair or uninstall that package"


def test_a_broken_dialect_of_another_package_does_not_hide_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    add_entries(monkeypatch, Entry("acme", broken))
    assert list(registry.ours()) == list(registry.OURS)


def test_a_dialect_that_only_a_wrong_frame_is_compared_with_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_IMPORTED", {})
    registry.ours()
    assert registry.imported() == {}
    registry.dialect("pod")
    assert list(registry.imported()) == ["pod"]


def test_a_dialect_of_an_entry_point_is_added_and_replaces_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = structs.replace(DIALECTS["pod"], name="acme")

    add_entries(monkeypatch, Entry("acme", lambda: theirs), Entry("smooth", lambda: theirs))
    assert list(registry.dialects()) == [*registry.OURS, "acme"]
    assert registry.dialect("smooth") is DIALECTS["smooth"]


def test_the_metadata_of_all_packages_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []

    def find(group: str) -> list[Entry]:
        groups.append(group)
        return []

    monkeypatch.setattr(metadata, "entry_points", find)
    registry.entry_points.cache_clear()
    try:
        assert registry.names() == registry.names() == registry.OURS
    finally:
        registry.entry_points.cache_clear()
    assert groups == ["dragoman.dialects"]


# -- endpoints --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "smooth+ws://127.0.0.1:0/ws",
        "smooth+ws://h:1/?origin=http://a&origin=http://b",
        "pod+unix:/x",
        "pod+unix:/x?session=latest",
        "pod+dir:/x",
        "pod+name:atlas",
        "pod+name:atlas?session=new",
    ],
)
def test_supported_listen_endpoints_are_accepted(text: str) -> None:
    registry.check_listen(parse(text))


@pytest.mark.parametrize("text", ["pod+unix:/x", "pod@seed+unix:/x", "pod+dir:/x", "pod+name:atlas"])
def test_supported_dial_endpoints_are_accepted(text: str) -> None:
    registry.check_upstream(parse(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pud+unix:/x", "unknown dialect 'pud'"),
        ("pod+ws://h:1", "cannot listen on this; it can listen on smooth+ws:..., smooth+wss:..., pod+unix:..."),
        ("smooth+unix:/x", "cannot listen on this; it can listen on smooth+ws:..., smooth+wss:..., pod+unix:..."),
        ("pod@2031+unix:/x", "unknown generation; pod has seed"),
        ("pod+unix:/x?modes=0600", "unknown option 'modes'; options of unix: fd, gid, group, mode, owner"),
        ("pod+name:a/b", "invalid pod name 'a/b'"),
        ("pod+dir:/x?session=new", "unknown option 'session'; options of dir: gid, group, mode, owner, uid"),
        ("smooth+ws://h:1/?orign=x", "unknown option 'orign'; options of ws: fd, host, origin"),
    ],
)
def test_an_unsupported_listen_endpoint_is_refused_with_the_supported_ones(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.check_listen(parse(text))
    assert words in str(caught.value)


async def test_a_connector_raises_os_error_if_nobody_listens(tmp_path: Any) -> None:
    connect = registry.connector(parse(f"pod+unix:{tmp_path}/sock"), Limits(), spawner_of(Children(1)))
    with pytest.raises(OSError, match="sock"):
        await connect()


@pytest.mark.parametrize("upstream", ["pod+unix:/x", "pod+name:atlas"])
def test_a_listener_may_not_choose_a_session_of_a_backend_with_a_single_one(upstream: str) -> None:
    listen = parse("pod+unix:/y?session=latest")
    with pytest.raises(ConfigError, match="leave out `session`"):
        registry.check_session(listen, parse(upstream))
    for other in ("pod+dir:/x", "smooth+ws://h:1/ws"):
        registry.check_session(listen, parse(other))


def test_a_pod_name_and_its_socket_are_the_same_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSOMNIA_RUNTIME_DIR", "/run/pods")
    assert registry.places(parse("pod+name:atlas")) == registry.places(parse("pod+unix:/run/pods/atlas/sock"))


async def test_a_pod_name_is_resolved_in_the_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSOMNIA_RUNTIME_DIR", str(tmp_path))
    accepted: list[Any] = []
    listener = await registry.listen(parse("pod+name:atlas"), Limits(), callbacks(accepted.append))
    assert listener.address == f"unix:{tmp_path}/atlas/sock"
    transport = await registry.connector(parse("pod+name:atlas"), Limits(), spawner_of(Children(1)))()
    await transport.close()
    while not accepted:  # noqa: ASYNC110  # the kernel accepts, and then the loop
        await asyncio.sleep(0)
    await accepted[0].close()
    await listener.close()


def test_only_a_pod_directory_endpoint_lists_pods() -> None:
    assert registry.pods(parse("pod+dir:/x")) is not None
    assert registry.pods(parse("pod+unix:/x")) is None
    assert registry.pods(parse("pando+dir:/project")) is None


def test_a_socket_needs_an_existing_directory_and_a_path_that_is_not_too_long(tmp_path: Path) -> None:
    registry.check_place(parse(f"pod+unix:{tmp_path}/sock"))
    registry.check_place(parse("smooth+ws://127.0.0.1:0/ws"))
    with pytest.raises(ConfigError, match="the socket's directory does not exist"):
        registry.check_place(parse(f"pod+unix:{tmp_path}/none/sock"))
    with pytest.raises(ConfigError, match="the path of a socket has at most"):
        registry.check_place(parse(f"pod+unix:{tmp_path}/{'x' * 200}"))
    with pytest.raises(ConfigError, match="the path of a socket has at most"):
        registry.check_upstream(parse(f"pod+unix:{tmp_path}/{'x' * 200}"))


# -- behind a recording --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (f"replay%2Bfile:{FROZEN}/v4.jsonl", "must be live, not another recording"),
        ("pando%2Bdir:project", "write the project's absolute path"),
        ("pod%2Bdir:/run/pods", r"write pod\+unix:/run/pods/NAME/sock"),
        ("pod%2Bunix:/a?colour=1", "unknown option 'colour'"),
        ("pando%2Btcp://h:1", "a pando has one for all sessions"),
        ("pando%2Bdir:/p", "a pando has one for all sessions"),
    ],
)
def test_an_endpoint_that_cannot_back_a_replay_is_refused_with_the_supported_ones(live: str, words: str) -> None:
    for options in ("mode=spy&upstream=", "until=1&then="):
        with pytest.raises(ConfigError, match=words):
            registry.check_upstream(parse(f"replay+file:{FROZEN}/v4.jsonl?{options}{live.replace('?', '%3F')}"))


@pytest.mark.parametrize("live", ["smooth%2Bws://h:1/", "pod%2Bunix:/p", "codewhale%2Bunix:/p"])
def test_a_backend_with_a_connection_for_each_session_can_back_a_replay(live: str) -> None:
    registry.check_upstream(parse(f"replay+file:{FROZEN}/v4.jsonl?mode=spy&upstream={live}"))
