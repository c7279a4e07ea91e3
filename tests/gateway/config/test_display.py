"""The output of a configuration: every key, with secrets masked and defaults marked."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli

from dragoman.gateway.config.check import load
from dragoman.gateway.config.display import list_defaults, masked_table, to_toml
from dragoman.gateway.config.model import Config

TEXT = """
[[route]]
listen = ["pod+unix:s"]
upstream = "smooth+ws://h/ws?token=t0p-secret"
overflow = "disconnect"
env = ["API_KEY=t0p-secret"]
limits = { session_ttl = 60 }
[limits]
heartbeat = 3
[auth]
tokens = { alice = "t0p-secret-of-alice" }
[recording]
path = "rec/"
[recording.redact]
salt = "t0p-secret-t0p-secret"
patterns = { customer = '${file:pattern}' }
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "pattern").write_text("t0p-secret-[0-9]", "utf-8")
    file = tmp_path / "c.toml"
    file.write_text(TEXT, "utf-8")
    file.chmod(0o600)
    return load(file)


def test_no_secret_is_shown(config: Config) -> None:
    assert "t0p" not in "\n".join(to_toml(config)) + str(masked_table(config))


def test_values_are_resolved_and_defaults_are_there(config: Config, tmp_path: Path) -> None:
    table = masked_table(config)
    (route,) = table["route"]
    assert (route["listen"], route["overflow"], route["approvals"]) == ([f"pod+unix:{tmp_path}/s"], "disconnect", "ask")
    assert route["upstream"] == "smooth+ws://h/ws?token=***"
    assert table["recording"]["path"] == f"{tmp_path}/rec/"


def test_a_route_begins_with_its_name_its_listeners_and_its_upstream(config: Config) -> None:
    (route,) = masked_table(config)["route"]
    assert list(route)[:3] == ["name", "listen", "upstream"]


def test_keys_of_the_file_do_not_count_as_defaults(config: Config) -> None:
    defaults = list_defaults(config)
    assert {"route[0].approvals", "route[0].file_roots", "limits.log_max", "recording.compress"} < set(defaults)
    given = {"route[0].overflow", "route[0].limits.session_ttl", "limits.heartbeat", "recording.redact.salt"}
    assert not given & set(defaults)


def test_the_toml_has_the_keys_of_a_file_and_marks_defaults(config: Config) -> None:
    text = "\n".join(to_toml(config))
    assert 'overflow = "disconnect"\n' in text
    assert "limits = { session_ttl = 60.0 }\n" in text
    assert 'approvals = "ask"  # default\n' in text
    assert "# keep_count is not set\n" in text
    table = tomli.loads(text)
    assert table["recording"]["redact"]["patterns"] == {"customer": "***"}
    assert table["limits"]["heartbeat"] == 3.0


def test_the_toml_of_any_characters_can_be_read_again() -> None:
    name = "".join(map(chr, range(1, 256)))
    shown = "\n".join(to_toml(Config(routes=(), principals={name: (name,)})))
    assert tomli.loads(shown)["principals"] == {name: [name]}
