"""Texts that people see outside of a recording are redacted too."""

from __future__ import annotations

import pytest

from dragoman.gateway.recording.redaction.rules import redact_text
from tests.gateway.recording.redaction.corpus import SAID, SHAPES


@pytest.mark.parametrize(("kind", "before", "secret", "behind"), SAID)
def test_a_secret_is_not_shown(kind: str, before: str, secret: str, behind: str) -> None:
    text = redact_text(before + secret + behind)
    assert secret not in text
    assert text.startswith(f"{before}[redacted:{kind}:")
    assert text.endswith(behind)


def test_equal_secrets_have_equal_placeholders_and_others_differ() -> None:
    one, other = SHAPES["api_key"], SHAPES["github_token"]
    assert redact_text(one) == redact_text(one) != redact_text(other)


def test_truncated_text_may_be_part_of_a_secret() -> None:
    begin = f"it is {SHAPES['api_key'][:9]}"
    assert redact_text(begin) == begin
    assert redact_text(begin, cut=True).startswith("it is [redacted:api_key:")


def test_all_other_text_is_not_changed() -> None:
    for text in (
        "",
        "plain words",
        '{"type":"status","id":"1eb38050-bf21-5d11-bf20-e54aa4afc63d"}',
        "ws://127.0.0.1:80/ws",
    ):
        assert redact_text(text) is text
        assert redact_text(text, cut=True) is text
