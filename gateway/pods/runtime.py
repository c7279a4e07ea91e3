"""The folders of pods' sockets and sessions, and valid pod names (docs/dialects/pod.md, section 2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.mappings.errors import ConfigError

__all__ = ["check_name", "runtime_directory", "sessions_directory"]

NAME_MAX = 255  # bytes of a file name


def runtime_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the first variable that is set and not empty; names of later versions come last.

    $INSOMNIA_RUNTIME_DIR, $INSOMNIA_HOME/run, $YOI_RUNTIME_DIR, $YOI_HOME/run, $XDG_RUNTIME_DIR/insomnia,
    $HOME/.insomnia/run.
    """
    places = (
        ("INSOMNIA_RUNTIME_DIR", ""),
        ("INSOMNIA_HOME", "run"),
        ("YOI_RUNTIME_DIR", ""),
        ("YOI_HOME", "run"),
        ("XDG_RUNTIME_DIR", "insomnia"),
        ("HOME", ".insomnia/run"),
    )
    for variable, below in places:
        if environment.get(variable):
            return Path(environment[variable]) / below
    raise ConfigError("no runtime directory for pods: set INSOMNIA_RUNTIME_DIR, INSOMNIA_HOME, XDG_RUNTIME_DIR or HOME")


def sessions_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the pods' sessions: `sessions` below the first variable that is set and not empty.

    $INSOMNIA_DATA_DIR, $INSOMNIA_HOME, $YOI_DATA_DIR, $YOI_HOME, $HOME/.insomnia.
    """
    for variable in ("INSOMNIA_DATA_DIR", "INSOMNIA_HOME", "YOI_DATA_DIR", "YOI_HOME"):
        if environment.get(variable):
            return Path(environment[variable]) / "sessions"
    if environment.get("HOME"):
        return Path(environment["HOME"]) / ".insomnia" / "sessions"
    raise ConfigError("no data directory for pods: set INSOMNIA_DATA_DIR, INSOMNIA_HOME or HOME")


def check_name(name: str) -> str:
    """Return `name` if it is valid for a pod; raise ConfigError otherwise."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > NAME_MAX:
        raise ConfigError(f"invalid pod name {name!r}: write one without `/`, for example atlas")
    return name
