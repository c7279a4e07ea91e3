"""The answers of the ops port, made without a port."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dragoman.gateway.app import App
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import ConfigFile
from dragoman.gateway.ops.answers import config_in_force

TEXT = """
[[route]]
name = "r"
listen = ["pod+unix:s"]
upstream = "smooth+ws://h:1/ws?token=hidden-in-a-token&agent=shown"
env = ["LICENCE=${file:licence}"]
[auth]
tokens = { alice = "hidden-token-of-alice" }
[recording]
path = "recordings/"
[recording.redact]
salt = "hidden-in-the-salt"
"""


def test_the_configuration_in_force_has_the_keys_of_a_file_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "licence").write_text("hidden-in-a-file", "utf-8")
    file = tmp_path / "config.toml"
    file.write_text(TEXT, "utf-8")
    file.chmod(0o600)
    shown = config_in_force(App(load(file))).config
    assert b"hidden" not in msgspec.json.encode(shown)
    assert shown.keys() == {field.encode_name for field in msgspec.structs.fields(ConfigFile)}
    assert shown["route"][0]["upstream"] == "smooth+ws://h:1/ws?token=***&agent=shown"
    assert shown["limits"]["links"] == 10_000
