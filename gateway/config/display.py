"""Show a configuration in force: every key with its value, secrets masked, and which values are defaults.

A secret is the value of a field of type `Secret`, a value from `${file:PATH}`, or an option of an endpoint such as its
token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.config.lines import KeyPath, format_key
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import MASK, Endpoint, masked_text

OF_THE_FILE = {"routes": "route"}
"""A field of Config -> its key in a file, where they differ."""
NOT_IN_A_FILE = ("given", "secrets", "inherit_env")


def masked_table(config: Config) -> dict[str, Any]:
    """Return a configuration as a table with the keys of a file, secrets masked."""
    hints = get_type_hints(Config, include_extras=True)
    fields = [name for name in Config.__struct_fields__ if name not in NOT_IN_A_FILE]
    return {
        key: _mask(getattr(config, name), hints[name], (key,), config.secrets)
        for name in fields
        for key in [OF_THE_FILE.get(name, name)]
    }


def list_defaults(config: Config) -> list[str]:
    """Return the keys of a configuration that its file does not have, such as `limits.memory`."""
    return [format_key(path) for path, _ in _leaves(masked_table(config)) if path not in config.given]


def to_toml(config: Config) -> Iterator[str]:
    """Yield the lines of a configuration as TOML. A default is marked; a key without a value is a comment."""
    for key, value in masked_table(config).items():
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _table(config, (key, index), item, f"[[{key}]]")
        elif value is not None:
            yield from _table(config, (key,), value, f"[{key}]")


def _table(config: Config, path: KeyPath, table: dict[str, Any], heading: str) -> Iterator[str]:
    below = {name: item for name, item in table.items() if isinstance(item, dict) and item and len(path) == 1}
    yield heading
    defaults_last = sorted(table.items(), key=lambda pair: (*path, pair[0]) not in config.given)
    for name, item in defaults_last:
        if name in below:
            continue
        mark = "" if (*path, name) in config.given else "  # default"
        yield f"# {name} is not set" if item is None else f"{_key(name)} = {_toml(item)}{mark}"
    yield ""
    for name, item in below.items():
        yield from _table(config, (*path, name), item, f"[{path[0]}.{_key(name)}]")


def _mask(value: Any, hint: Any, path: KeyPath, secrets: frozenset[KeyPath]) -> Any:
    if isinstance(value, Endpoint):
        return value.masked
    if isinstance(value, Struct):
        hints = get_type_hints(type(value), include_extras=True)
        names = [name for name in value.__struct_fields__ if name != "authenticated"]  # not a key of the file
        table = {name: _mask(getattr(value, name), hints[name], (*path, name), secrets) for name in names}
        if isinstance(value, Route):  # the file has both in one key
            table["upstream"] = [table["upstream"], *others] if (others := table.pop("failover")) else table["upstream"]
            table = {name: table[name] for name in ("name", "listen", "upstream")} | table
        return table
    if isinstance(value, Mapping):
        return {name: _mask(item, hint, (*path, name), secrets) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask(item, hint, (*path, index), secrets) for index, item in enumerate(value)]
    if value and (path in secrets or _is_secret(hint)):
        return MASK
    return masked_text(value) if isinstance(value, str) else value


def _is_secret(hint: Any) -> bool:
    """Return True if values of this type are secrets: it is `Secret`, or a list or table of them."""
    if isinstance(hint, Meta):
        return bool((hint.extra_json_schema or {}).get("writeOnly"))
    return any(map(_is_secret, (*get_args(hint), *getattr(hint, "__metadata__", ()))))


def _leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        items = ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")  # all else in JSON means the same in TOML
