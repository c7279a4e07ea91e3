"""Texts that people see outside of a recording are redacted too."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.gateway.recording.redaction.finder import HIDDEN, finder
from dragoman.gateway.recording.redaction.rules import known_secrets, redact_text
from tests.gateway.recording.redaction.corpus import SAID, SHAPES
from tests.step_counter import GROWTH, growth


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


SECRET = 'tr0ub4dor"&3\\x'


@pytest.mark.parametrize("layer", [lambda text: text, json.dumps, lambda text: json.dumps(json.dumps(text))])
def test_a_known_secret_is_found_and_an_unfinished_one_is_held_back_wherever_the_text_ends(
    layer: Callable[[str], str],
) -> None:
    find = finder(known_secrets([SECRET, SECRET[:-1], "short"]))
    secret, text = layer(SECRET).strip('"\\'), layer(f"it is {SECRET}. It is short.")
    begin = text.index(secret)
    (found,) = find.find(text)
    assert text[found.start : found.end] == secret
    for end in range(begin + HIDDEN, begin + len(secret)):
        spans = [*find.find(text[:end]), *filter(None, [find.find_open(text[:end])])]
        assert min(span.start for span in spans) == begin
    assert find.find("its beginning, tr0ub4dor, is no secret") == []
    assert find.find_open("its beginning, tr0ub4dor, is no secret") is None


def test_the_detector_of_a_known_secret_takes_work_in_proportion_to_its_length() -> None:
    def work(length: int) -> Callable[[], object]:
        return lambda: known_secrets(["t0k3n" * length])

    assert growth(work, [16, 32, 64, 128]) <= GROWTH
