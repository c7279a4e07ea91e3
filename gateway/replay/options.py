"""How a recording is played: the options of `replay+file:PATH`, in a route and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.format import Header
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.pace import read_speed
from dragoman.mappings.errors import ConfigError

__all__ = ["MODES", "OPTIONS", "Mode", "Options", "Until", "header", "read_options", "read_until"]

Mode = Literal["strict", "spy"]
MODES: tuple[Mode, ...] = ("strict", "spy")
OPTIONS = frozenset({"mode", "upstream", "speed", "idle_cap", "auto", "explain", "until", "then"})
FLAGS = {"yes": True, "no": False}


class Until(Struct, frozen=True, kw_only=True):
    """Where a replay ends: behind the line `seq`, or behind the turn `turn`, counted from 1."""

    seq: int = 0
    turn: int = 0


class Options(Struct, frozen=True, kw_only=True):
    """What may be said of a replay.

    `live` is the backend behind it: of what the recording has not (`mode` spy), or of everything
    past `until`. `speed` 0 is without pauses, `idle_cap` in seconds.
    """

    path: Path
    mode: Mode = "strict"
    speed: float = 1.0
    idle_cap: float | None = None
    auto: bool = False
    explain: bool = False
    until: Until | None = None
    live: Endpoint | None = None


def read_options(endpoint: Endpoint) -> Options:
    """The options of an endpoint; ConfigError says what is wrong and what to write."""
    try:
        return _options(endpoint)
    except ConfigError as error:
        raise ConfigError(f"{endpoint.dialect}+{endpoint.transport}:{endpoint.address}: {error}") from error


def _options(endpoint: Endpoint) -> Options:
    mode = _mode(endpoint.option("mode", "strict"))
    spied, then, until = endpoint.option("upstream"), endpoint.option("then"), endpoint.option("until")
    if bool(then) != bool(until):
        raise ConfigError("`until` says where the recording ends and `then` which backend goes on: write both or none")
    if then and mode != "strict":
        raise ConfigError(f"mode {mode} goes with `upstream`, and `then` with mode strict: one live backend is enough")
    if (mode != "strict") != bool(spied):
        raise ConfigError("mode spy wants the live backend as `upstream`, and strict has none")
    auto = _flag(endpoint, "auto")
    if auto and spied:
        raise ConfigError("what plays by itself takes no commands: leave out `auto`, or the mode")
    live = then or spied
    return Options(
        path=Path(endpoint.address), mode=mode, speed=read_speed(endpoint.option("speed", "real")),
        idle_cap=_seconds(endpoint.option("idle_cap")), auto=auto, explain=_flag(endpoint, "explain"),
        until=read_until(until) if until else None, live=parse(live) if live else None,
    )  # fmt: skip


def _mode(text: str) -> Mode:
    for mode in MODES:
        if text == mode:
            return mode
    raise ConfigError(f"mode {text!r}: write {' or '.join(MODES)}")


def read_until(text: str) -> Until:
    """`SEQ` or `turn:N`; ConfigError for anything else."""
    kind, _, number = text.rpartition(":")
    if kind not in ("", "turn") or not number.isdecimal() or int(number) < 1:
        raise ConfigError(f"until {text!r}: write the number of a line, for example 17, or turn:N, for example turn:2")
    return Until(turn=int(number)) if kind else Until(seq=int(number))


def header(endpoint: Endpoint) -> Header:
    """The header of the recording there; ConfigError if there is none that can be read."""
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
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"idle_cap {text!r}: write seconds, for example 2")
    return seconds
