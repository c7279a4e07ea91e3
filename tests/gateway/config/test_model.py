"""The example configuration is correct: it has each key with its default."""

from __future__ import annotations

from pathlib import Path

import msgspec
import tomli
from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import ConfigFile, Limits, RouteOptions

EXAMPLE = Path(__file__).parents[3] / "config.example.toml"


def test_the_example_shows_exactly_the_defaults() -> None:
    config = load(EXAMPLE)
    assert config.limits == Limits()
    for route in config.routes:
        chosen = {name: getattr(route, name) for name in RouteOptions.__struct_fields__}
        assert chosen == structs.asdict(RouteOptions()) | {"share": "all"}, "auto is settled when a file is read"


def test_the_example_shows_every_key() -> None:
    table = tomli.loads(EXAMPLE.read_text("utf-8"))
    schema = msgspec.json.schema(ConfigFile)["$defs"]
    shown = {
        "ConfigFile": table,
        "RouteTable": table["route"][0],
        "Limits": table["limits"],
        "Redact": table["recording"]["redact"],
    }
    for name, keys in shown.items():
        known = schema[name]["properties"]
        assert not known.keys() - keys, f"write a line for these keys of {name} in config.example.toml"
        assert not keys - known.keys(), f"config.example.toml has keys that {name} has not"


def test_each_limit_is_read_by_a_module_of_the_gateway() -> None:
    texts = [path.read_text("utf-8") for path in (EXAMPLE.parent / "gateway").rglob("*.py")]
    unread = [name for name in Limits.__struct_fields__ if not any(f".{name}" in text for text in texts)]
    assert not unread, f"no module of the gateway reads these keys of [limits]: {unread}"


def test_the_example_s_route_can_be_served() -> None:
    for route in load(EXAMPLE).routes:
        registry.check_upstream(route.upstream)
        for endpoint in route.listen:
            registry.check_listen(endpoint)
