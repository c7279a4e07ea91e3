"""Resolve the relative paths of a configuration file: they start at the folder of that file.

So a configuration means the same wherever the gateway is started.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.gateway.endpoint import parse
from dragoman.mappings.errors import ConfigError


def resolve_paths(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the table of a configuration with absolute paths.

    A value of the wrong type stays as it is, so that its error quotes what the user wrote.
    """
    table = dict(table)
    if isinstance(recording := table.get("recording"), dict):
        table["recording"] = {**recording, **_resolved(recording, "path", lambda text: _below(folder, text))}
    if isinstance(auth := table.get("auth"), dict) and isinstance(jwt := auth.get("jwt"), dict):
        table["auth"] = {**auth, "jwt": {**jwt, **_resolved(jwt, "jwks", lambda text: _file(folder, text))}}
    if isinstance(routes := table.get("route"), list):
        table["route"] = [_resolve_route(route, folder) if isinstance(route, dict) else route for route in routes]
    return table


def _resolve_route(route: dict[str, Any], folder: Path) -> dict[str, Any]:
    def resolve(text: str) -> str:
        return _resolve_endpoint(text, folder)

    return {
        **route,
        **_all_resolved(route, "file_roots", lambda text: _below(folder, text)),
        **_all_resolved(route, "listen", resolve),
        **_all_resolved(route, "upstream", resolve),
        **_resolved(route, "upstream", resolve),
    }


def _resolved(table: dict[str, Any], key: str, resolve: Callable[[str], str]) -> dict[str, Any]:
    """Return the key of a table with its text resolved; nothing if the table has no text at this key."""
    value = table.get(key)
    return {key: resolve(value)} if isinstance(value, str) else {}


def _all_resolved(table: dict[str, Any], key: str, resolve: Callable[[str], str]) -> dict[str, Any]:
    """Return the key of a table with each text of its list resolved; nothing if the table has no list at this key."""
    value = table.get(key)
    if not isinstance(value, list):
        return {}
    return {key: [resolve(item) if isinstance(item, str) else item for item in value]}


def _below(folder: Path, text: str) -> str:
    """Return a path below a folder; one that begins with `~` is below the folder of its user."""
    return f"{folder / os.path.expanduser(text)}{'/' if text.endswith('/') else ''}" if text else text


def _file(folder: Path, text: str) -> str:
    return text if "://" in text else _below(folder, text)


def _resolve_endpoint(text: str, folder: Path) -> str:
    try:
        endpoint = parse(text)
    except ConfigError:  # reported by the check
        return text
    resolved = endpoint.relative_to(folder)
    return text if resolved == endpoint else str(resolved)
