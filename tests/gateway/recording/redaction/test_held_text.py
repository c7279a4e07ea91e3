from __future__ import annotations

import random

import pytest

from dragoman.gateway.recording.redaction.finder import KNOWN_MOST, Detector, Finder
from dragoman.gateway.recording.redaction.held_text import BEHIND, HeldDelta, HeldText, Released
from dragoman.gateway.recording.redaction.rules import pattern
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.spans import Span, placeholders, replaced
from tests.gateway.recording.redaction.corpus import SAID

MARK = placeholders(b"salt")


def block(finder: Finder) -> HeldText[int]:
    return HeldText(finder, finder.find, MARK)


def left(given: Released[int]) -> list[tuple[int, str]]:
    """Return the released pieces with their owners; each piece comes at a time of its own."""
    out = []
    for delta, changed in given:
        texts = delta.pieces or [delta.text] if changed is None else [text for text, _ in changed]
        out += [(delta.slot + at, text) for at, text in enumerate(texts)]
    return out


@pytest.mark.parametrize("seed", range(30))
def test_the_released_deltas_together_are_the_redacted_text(seed: int) -> None:
    """No secret is overdue here, because text is held back until then."""
    drawn = random.Random(seed)
    finder = Finder([*BUILT_IN, pattern("customer", "CUST-[0-9]{4,8}")])
    parts = [before + secret + behind for _, before, secret, behind in SAID] + [" CUST-123456 ", "prose, "] * 8
    drawn.shuffle(parts)
    text = "\n".join(parts)
    streamed: HeldText[int] = block(finder)
    given: list[tuple[int, str]] = []
    at = count = 0
    while at < len(text):
        pieces: list[str] = []
        for _ in range(drawn.choice((1, 1, 5))):
            pieces.append(text[at : at + drawn.randrange(1, 12)])
            at += len(pieces[-1])
        streamed.add(HeldDelta(count, "".join(pieces), count, pieces if len(pieces) > 1 else ()))
        count += len(pieces)
        if not drawn.randrange(5):
            given += left(streamed.release(0))
    early = len(given)
    given += left(streamed.finish())
    assert [slot for slot, _ in given] == list(range(count))
    assert "".join(new for _, new in given) == replaced(text, finder.find(text), MARK)
    assert early > count // 4


def test_overdue_text_is_measured_by_its_size() -> None:
    one = block(Finder(BUILT_IN))
    for t in range(10):
        one.add(HeldDelta(t, "abc", t))
    assert one.held == 30
    assert [one.count_before_last(characters) for characters in (10, 9, 0)] == [6, 7, 10]


def test_overdue_text_is_released_by_its_time_although_it_is_not_decided() -> None:
    one = block(Finder(BUILT_IN))
    for t, text in enumerate(["password=", "a1", "b2", "c3", "d4"]):
        one.add(HeldDelta(t, text, t))
    assert one.release_held_since(-1, 9) == []
    assert [delta.t for delta, _ in one.release_held_since(0, 2)] == [0, 1, 2]
    assert [delta.t for delta, _ in one.finish()] == [3, 4]


@pytest.mark.parametrize("patterns", [(), (pattern("ticket", "TICKET-[0-9]{6}"),)])  # these hold some text back
def test_the_part_of_an_endless_secret_that_is_searched_again_is_bounded(patterns: tuple[Detector, ...]) -> None:
    searched: list[int] = []

    class NotingFinder(Finder):
        def find(self, text: str) -> list[Span]:
            searched.append(len(text))
            return super().find(text)

    one, piece = block(NotingFinder([*BUILT_IN, *patterns])), "x2%^" * (KNOWN_MOST // 16)
    one.add(HeldDelta(0, f"password={piece}", 0))
    for t in range(1, 12):
        one.add(HeldDelta(t, piece, t))
        one.release(1)
    assert KNOWN_MOST < max(searched) <= KNOWN_MOST + BEHIND + 2 * len(piece)


def test_empty_deltas_are_released_with_the_others() -> None:
    one = block(Finder(BUILT_IN))
    for slot, text in enumerate(["", "a", "", "b", ""]):
        one.add(HeldDelta(slot, text, slot))
    assert left(one.finish()) == [(0, ""), (1, "a"), (2, ""), (3, "b"), (4, "")]
