"""Where pods keep their sockets and sessions, and how a pod may be called (docs/dialects/pod.md, section 2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.mappings.errors import ConfigError

__all__ = ["check_name", "runtime_directory", "sessions_directory"]

NAME_MAX = 255  # bytes of a file's name


def runtime_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The first that is set and not empty; the names of later pods come after those of the seed.

    $INSOMNIA_RUNTIME_DIR, $INSOMNIA_HOME/run, $YOI_RUNTIME_DIR, $YOI_HOME/run, $XDG_RUNTIME_DIR/insomnia,
    $HOME/.insomnia/run.
    """
    places = (
        ("INSOMNIA_RUNTIME_DIR", ""), ("INSOMNIA_HOME", "run"), ("YOI_RUNTIME_DIR", ""), ("YOI_HOME", "run"),
        ("XDG_RUNTIME_DIR", "insomnia"), ("HOME", ".insomnia/run"),
    )  # fmt: skip
    for variable, below in places:
        if environment.get(variable):
            return Path(environment[variable]) / below
    raise ConfigError("no runtime directory for pods: set INSOMNIA_RUNTIME_DIR, INSOMNIA_HOME, XDG_RUNTIME_DIR or HOME")


def sessions_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the pods' sessions; the names of later pods come after those of the seed.

    $INSOMNIA_DATA_DIR, $INSOMNIA_HOME, $YOI_DATA_DIR, $YOI_HOME, $HOME/.insomnia, and `sessions` in it.
    """
    for variable in ("INSOMNIA_DATA_DIR", "INSOMNIA_HOME", "YOI_DATA_DIR", "YOI_HOME"):
        if environment.get(variable):
            return Path(environment[variable]) / "sessions"
    if environment.get("HOME"):
        return Path(environment["HOME"]) / ".insomnia" / "sessions"
    raise ConfigError("no data directory for pods: set INSOMNIA_DATA_DIR, INSOMNIA_HOME or HOME")


def check_name(name: str) -> str:
    """`name`, if a pod may be called so; ConfigError says why not."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > NAME_MAX:
        raise ConfigError(f"{name!r} is no name for a pod: write one without `/`, for example atlas")
    return name
