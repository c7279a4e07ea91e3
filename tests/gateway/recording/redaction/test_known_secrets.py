"""Known secrets are found by their value, in escaped text, and in text that ends inside of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.gateway.recording.redaction.finder import HIDDEN, finder
from dragoman.gateway.recording.redaction.known_secrets import known_secrets
from tests.step_counter import GROWTH, growth

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
