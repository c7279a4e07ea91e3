"""The answers of the ops port, made without a port."""

from __future__ import annotations

from dragoman.gateway.config.model import Config, Recording, Redact, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ops.answers import mask_config


def test_secrets_of_each_kind_are_masked_and_all_else_is_shown() -> None:
    route = Route(name="r", listen=(), upstream=parse("smooth+ws://h:1/ws?token=hidden&agent=shown"))
    shown = mask_config(
        Config(routes=(route,), recording=Recording(path="/srv/", redact=Redact(salt="a-salt-that-nobody-sees")))
    )
    assert shown["recording"]["path"] == "/srv/"
    assert shown["recording"]["redact"]["salt"] == "***"
    assert shown["routes"][0]["upstream"] == "smooth+ws://h:1/ws?token=***&agent=shown"
    assert shown["limits"]["links"] == 10_000


def test_every_value_below_a_secret_key_is_masked() -> None:
    assert mask_config({"tokens": {"alice": "one"}, "more": {"tokens": ["two"]}, "none": {"token": ""}}) == {
        "tokens": {"alice": "***"},
        "more": {"tokens": ["***"]},
        "none": {"token": ""},
    }
