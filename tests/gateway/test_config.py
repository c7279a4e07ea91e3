"""The configuration file: the example is true, and an error names the file and the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import tomli
from msgspec import structs

from gateway import registry
from gateway.config import Config, ConfigFile, Limits, RouteOptions, load
from gateway.endpoint import parse
from mappings.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
ROUTE = '[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:/x"\n'


@pytest.fixture
def written(tmp_path: Path) -> Any:
    path = tmp_path / "gateway.toml"

    def write(text: str) -> Path:
        path.write_text(text, "utf-8")
        return path

    return write


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: "), text
    assert "\n" not in text
    return text


def test_the_example_shows_the_defaults_and_only_them() -> None:
    config = load(EXAMPLE)
    assert config.limits == Limits()
    for route in config.routes:
        chosen = {name: getattr(route, name) for name in RouteOptions.__struct_fields__}
        assert chosen == structs.asdict(RouteOptions())


def test_the_example_shows_every_key() -> None:
    table = tomli.loads(EXAMPLE.read_text("utf-8"))
    schema = msgspec.json.schema(ConfigFile)["$defs"]
    assert set(table) == set(schema["ConfigFile"]["properties"])
    assert set(table["route"][0]) == set(schema["RouteTable"]["properties"])
    assert set(table["limits"]) == set(schema["Limits"]["properties"])


def test_the_example_s_route_can_be_served() -> None:
    for route in load(EXAMPLE).routes:
        registry.check_upstream(route.upstream)
        for endpoint in route.listen:
            registry.check_listen(endpoint)


def test_the_schema_accepts_the_example_and_no_unknown_key() -> None:
    schema = msgspec.json.schema(ConfigFile)
    jsonschema.Draft202012Validator.check_schema(schema)
    table = tomli.loads(EXAMPLE.read_text("utf-8"))
    jsonschema.validate(table, schema)
    table["limits"]["patience"] = 3
    assert not jsonschema.Draft202012Validator(schema).is_valid(table)


def test_a_route_is_read_with_its_endpoints(written: Any) -> None:
    config = load(written(ROUTE + 'name = "a"\noverflow = "disconnect"\n[limits]\nheartbeat = 3\n'))
    (route,) = config.routes
    assert (route.name, route.overflow, route.upstream) == ("a", "disconnect", parse("pod+unix:/x"))
    assert route.listen == (parse("smooth+ws://127.0.0.1:0/ws"),)
    assert config.limits.heartbeat == 3.0


def test_a_route_without_a_name_is_the_default(written: Any) -> None:
    config: Config = load(written(ROUTE))
    assert [route.name for route in config.routes] == ["default"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (ROUTE + "[limits]\npatience = 3\n", ("patience", "$.limits")),
        (ROUTE + "listen_to = 3\n", ("listen_to", "$.route[0]")),
        ("colour = 1\n" + ROUTE, ("colour",)),
        (ROUTE + "[limits]\nmax_message = 3\n", ("1024", "$.limits.max_message")),
        (ROUTE + "[limits]\nheartbeat = 0\n", ("0", "$.limits.heartbeat")),
        (ROUTE + '[limits]\nlog_max = "many"\n', ("int", "$.limits.log_max")),
        ("[[route]]\nlisten = []\n", ("upstream", "$.route[0]")),
        ('[[route]]\nlisten = "smooth+ws://h:1"\nupstream = "pod+unix:/x"\n', ("array", "$.route[0].listen")),
        ("", ("route",)),
        ("route = []\n", ("[[route]]",)),
        ("[[route]\n", ("not TOML", "line 1")),
        (ROUTE + ROUTE, ("same name", "'default'")),
        (ROUTE + 'overflow = "explode"\n', ("$.route[0].overflow", "'explode'")),
        ('[[route]]\nlisten = []\nupstream = "pod+unix:/x"\n', ("'default'", "`listen`")),
        (ROUTE.replace("pod+unix:/x", "nowhere"), ("'nowhere'", "upstream", "pod+unix:/run/x/sock")),
        (ROUTE.replace("smooth+ws:", "ws:"), ("ws:", "listen", "smooth+ws://127")),
    ],
)
def test_an_error_names_the_file_and_the_key(written: Any, text: str, named: tuple[str, ...]) -> None:
    said = refused(written(text))
    assert [word for word in named if word not in said] == []


def test_a_file_that_is_not_there_or_not_utf8_is_named(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.toml")
    assert "directory" in refused(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    assert "not TOML" in refused(tmp_path / "latin.toml")
