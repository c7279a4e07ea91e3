"""Replace the references in the strings of a configuration, after TOML was parsed, so that no value can become TOML.

    ${VAR}          the environment variable; it must be set and not empty
    ${VAR:-text}    the same, or this text if the variable is not set or empty
    ${file:PATH}    the content of a file, without the newlines at its end; it must not be empty
    $$              a dollar sign

A dollar sign before any other character stands for itself. A relative PATH starts at the folder of the configuration
file. A value that was read from a file counts as secret; errors show a reference and never its value.

A secret in a table may also be written `env:NAME` or `file:PATH`. Those of endpoints are read for each connection.
Relative paths of the configuration become absolute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.gateway.config.lines import Found, KeyPath, map_texts
from dragoman.gateway.config.ops_address import UNIX
from dragoman.gateway.config.source import ENV, FILE, expand_home, find_secret, read_secret
from dragoman.gateway.endpoint import parse
from dragoman.mappings.errors import ConfigError

REFERENCE = re.compile(
    r"\$\$|\$\{(?:file:(?P<file>[^}]+)|(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?)\}|\$\{", re.ASCII
)
EXAMPLES = "write ${VAR}, ${VAR:-default} or ${file:PATH}, or $${ for the characters themselves"
PLACES = (("auth", "tokens"), ("auth", "jwt", "secret"), ("ops", "tokens"), ("recording", "redact", "salt"))
"""The keys with a secret, or with a list or a table of secrets."""
SHORTEST = 3  # characters of a value that is recognised in an error


class Interpolation:
    """The references in one configuration: their errors and their values."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._references: dict[str, str] = {}  # value -> the reference in the file
        self.faults: list[Found] = []
        self.replaced: set[KeyPath] = set()  # keys with a reference
        self.secrets: set[KeyPath] = set()  # keys with a value from a file

    def expand(self, value: Any) -> Any:
        """Return a parsed value with all references replaced; a string with a fault stays as it is."""
        return map_texts(value, self._expand_text)

    def hide_values(self, text: str) -> str:
        """Return the text of an error with the references in place of their values."""
        for value, reference in self._references.items():
            text = text.replace(value, reference)
        return text

    def _expand_text(self, path: KeyPath, text: str) -> str:
        try:
            text = "".join(self._pieces(text, path))
        except ConfigError as error:
            self.faults.append((path, str(error)))
        if "\0" in text:
            self.faults.append((path, "a value must not contain a NUL character"))
        return text.replace("\0", "")  # no system call accepts a null character

    def _pieces(self, text: str, path: KeyPath) -> Iterator[str]:
        end = 0
        for match in REFERENCE.finditer(text):
            yield text[end : match.start()]
            yield self._value(match, path)
            end = match.end()
        yield text[end:]

    def _value(self, match: re.Match[str], path: KeyPath) -> str:
        name, default, file = match["name"], match["default"], match["file"]
        if match[0] == "$$":
            return "$"
        self.replaced.add(path)
        if file is not None:
            self.secrets.add(path)
            value = read_secret(Path(_below(self._folder, file)))
        elif name is None:
            raise ConfigError(f"`${{` is not followed by a valid reference; {EXAMPLES}")
        elif value := self._environment.get(name, ""):
            pass
        elif default is not None:
            return str(default)
        else:
            state = "empty" if name in self._environment else "not set"
            raise ConfigError(f"the environment variable {name} is {state}; set it, or write ${{{name}:-default}}")
        if len(value) >= SHORTEST:
            self._references[value] = match[0]
        return value


class FileSecrets:
    """The secrets of one configuration: which cannot be read, and which stand in the file itself.

    A relative PATH starts at `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults: list[Found] = []
        self.literal: list[KeyPath] = []  # keys whose value is the secret

    def read(self, table: dict[str, Any]) -> Any:
        """Return a table with each `env:NAME` or `file:PATH` replaced by its secret.

        A reference that cannot be read stays.
        """
        return map_texts(table, self._read_one)

    def _read_one(self, path: KeyPath, text: str) -> str:
        if not any(path[: len(place)] == place for place in PLACES):
            return text
        if not text.startswith((ENV, FILE)):
            self.literal += [path] if text else []
            return text
        if text.startswith(FILE):
            text = f"{FILE}{_below(self._folder, text.removeprefix(FILE))}"
        try:
            return find_secret(text)
        except ConfigError as error:
            self.faults.append((path, str(error)))
            return text


def resolve_paths(table: dict[str, Any], folder: Path) -> Any:
    """Return the table of a configuration with absolute paths: relative ones start at the folder of its file.

    So a configuration means the same wherever the gateway is started. A value of the wrong type stays as it is, so that
    its error quotes what the user wrote.
    """

    def resolve(path: KeyPath, text: str) -> str:
        match path:
            case ("recording", "path") | ("route", int(), "file_roots", int()):
                return _below(folder, text)
            case ("ops", "listen") if text.startswith(UNIX):
                return UNIX + _below(folder, text.removeprefix(UNIX))
            case ("auth", "jwt", "jwks"):
                return text if "://" in text else _below(folder, text)
            case ("route", int(), "upstream") | ("route", int(), "listen" | "upstream", int()):
                return _resolve_endpoint(text, folder)
            case _:
                return text

    return map_texts(table, resolve)


def _below(folder: Path, text: str) -> str:
    """Return a path below a folder; one that begins with `~` is below the folder of its user."""
    return f"{folder / expand_home(text)}{'/' if text.endswith('/') else ''}" if text else text


def _resolve_endpoint(text: str, folder: Path) -> str:
    try:
        return str(parse(text).relative_to(folder))
    except ConfigError:  # reported by the check
        return text
