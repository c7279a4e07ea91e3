"""Read the secrets in the tables of a configuration file: each is written `env:NAME`, `file:PATH`, or as itself.

Those of endpoints are not among them: they are read for each connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.gateway.config.lines import KeyPath, map_texts
from dragoman.gateway.config.source import ENV, FILE, find_secret
from dragoman.mappings.errors import ConfigError

PLACES = (("auth", "tokens"), ("auth", "jwt", "secret"), ("ops", "tokens"), ("recording", "redact", "salt"))
"""The keys with a secret, or with a list or a table of secrets."""


class FileSecrets:
    """The secrets of one configuration: which cannot be read, and which stand in the file itself.

    A relative PATH starts at `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults: list[tuple[KeyPath, str]] = []
        self.literal: list[KeyPath] = []  # keys whose value is the secret

    def read(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return a table with each secret in place of what names it; one that cannot be read stays as it is."""
        for place in PLACES:
            table = self._read_below(table, (), place)
        return table

    def _read_below(self, value: Any, path: KeyPath, place: tuple[str, ...]) -> Any:
        if not place:
            return map_texts(value, self._read_one, path)
        key, below = place[0], place[1:]
        if not isinstance(value, dict) or key not in value:
            return value
        return {**value, key: self._read_below(value[key], (*path, key), below)}

    def _read_one(self, path: KeyPath, text: str) -> str:
        if not text.startswith((ENV, FILE)):
            self.literal += [path] if text else []
            return text
        if text.startswith(FILE):
            text = f"{FILE}{self._folder / text.removeprefix(FILE)}"
        try:
            return find_secret(text)
        except ConfigError as error:
            self.faults.append((path, str(error)))
            return text
