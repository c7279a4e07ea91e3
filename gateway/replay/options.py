"""The options of `replay+file:PATH`, in a route and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.format import Header
from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.errors import ConfigError

MODES = ("strict", "spy")
OPTIONS = frozenset({"mode", "upstream", "speed", "idle_cap", "auto", "explain", "until", "then"})
SPEED_MAX = 1_000_000.0
FLAGS = {"yes": True, "no": False}


Until = tuple[Literal["line", "turn"], int]
"""The end of a replay: after the line with this number, or after this turn, counted from 1."""


class Options(Struct, frozen=True, kw_only=True):
    """The options of a replay.

    `live` is the live backend behind it: for commands that are not in the recording (`spy`), or for everything
    after `until`. `speed` 0 means without pauses; `idle_cap` is in seconds.
    """

    path: Path
    spy: bool = False
    speed: float = 1.0
    idle_cap: float | None = None
    auto: bool = False
    explain: bool = False
    until: Until | None = None
    live: Endpoint | None = None


def read_options(endpoint: Endpoint) -> Options:
    """Return the options of an endpoint; raise ConfigError with what to write."""
    try:
        return _options(endpoint)
    except ConfigError as error:
        raise ConfigError(f"{endpoint.dialect}+{endpoint.transport}:{endpoint.address}: {error}") from error


def _options(endpoint: Endpoint) -> Options:
    mode = endpoint.option("mode", "strict")
    if mode not in MODES:
        raise ConfigError(f"mode {mode!r}: write {' or '.join(MODES)}")
    spied, then, until = endpoint.option("upstream"), endpoint.option("then"), endpoint.option("until")
    if bool(then) != bool(until):
        raise ConfigError("`until` and `then` belong together: the end of the recording and the backend that continues")
    if then and mode != "strict":
        raise ConfigError(f"mode {mode} needs `upstream`, and `then` needs mode strict: use only one of them")
    if (mode != "strict") != bool(spied):
        raise ConfigError("mode spy needs the live backend as `upstream`; mode strict must not have it")
    auto = _flag(endpoint, "auto")
    if auto and spied:
        raise ConfigError("`auto` takes no commands: leave out `auto`, or the mode")
    live = then or spied
    return Options(
        path=Path(endpoint.address),
        spy=mode == "spy",
        speed=read_speed(endpoint.option("speed", "real")),
        idle_cap=_seconds(endpoint.option("idle_cap")),
        auto=auto,
        explain=_flag(endpoint, "explain"),
        until=read_until(until) if until else None,
        live=parse(live) if live else None,
    )


def read_until(text: str) -> Until:
    """Parse `SEQ` or `turn:N`; raise ConfigError for other text."""
    kind, _, number = text.rpartition(":")
    if kind not in ("", "turn") or not number.isdecimal() or int(number) < 1:
        raise ConfigError(f"until {text!r}: write the number of a line, for example 17, or turn:N, for example turn:2")
    return "turn" if kind else "line", int(number)


def header(endpoint: Endpoint) -> Header:
    """Return the header of the recording; raise ConfigError if it cannot be read."""
    try:
        return open_recording(Path(endpoint.address)).header
    except OSError as error:
        raise ConfigError(f"{endpoint.address}: {error.strerror or error}") from error


def _flag(endpoint: Endpoint, key: str) -> bool:
    text = endpoint.option(key, "no")
    if text not in FLAGS:
        raise ConfigError(f"{key} {text!r}: write yes or no")
    return FLAGS[text]


def _seconds(text: str) -> float | None:
    seconds = _number(text) if text else None
    if seconds is not None and not 0 <= seconds < float("inf"):
        raise ConfigError(f"idle_cap {text!r}: write seconds, for example 2")
    return seconds


def read_speed(text: str) -> float:
    """Return the speed of `real`, `instant` or a factor such as `4`, `x4`, `0.5`; raise ConfigError for other text."""
    known = {"real": 1.0, "instant": 0.0}
    if text in known:
        return known[text]
    speed = _number(text.removeprefix("x"))
    if not 0 < speed <= SPEED_MAX:
        raise ConfigError(f"invalid speed {text!r}: write real, instant, or a factor, for example 4")
    return speed


def _number(text: str) -> float:
    """Return the number in a text, -1 if there is none."""
    try:
        return float(text)
    except ValueError:
        return -1.0
