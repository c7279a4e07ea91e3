from __future__ import annotations

import random

import pytest

from dragoman.gateway.recording.redaction.finder import KNOWN_MOST, Detector, Finder
from dragoman.gateway.recording.redaction.held_text import BEHIND, HeldDelta, HeldText
from dragoman.gateway.recording.redaction.rules import pattern
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.spans import Span, placeholders, replaced
from tests.gateway.recording.redaction.corpus import SAID

MARK = placeholders(b"salt")


def block(finder: Finder) -> HeldText:
    return HeldText(finder, finder.find, MARK)


def take_released(held: list[HeldDelta]) -> list[str]:
    """Take the released deltas, which are the first ones, and return the text of each of their pieces."""
    texts = list[str]()
    while held and not held[0].waits:
        delta = held.pop(0)
        texts += delta.pieces or [delta.text] if delta.changed is None else [text for text, _ in delta.changed]
    assert all(delta.waits for delta in held)
    return texts


@pytest.mark.parametrize("seed", range(30))
def test_the_released_deltas_together_are_the_redacted_text(seed: int) -> None:
    """No secret is overdue here, because text is held back until then."""
    drawn = random.Random(seed)
    finder = Finder([*BUILT_IN, pattern("customer", "CUST-[0-9]{4,8}")])
    parts = [before + secret + behind for _, before, secret, behind in SAID] + [" CUST-123456 ", "prose, "] * 8
    drawn.shuffle(parts)
    text = "\n".join(parts)
    streamed, held = block(finder), list[HeldDelta]()
    given = list[str]()
    at = count = 0
    while at < len(text):
        pieces: list[str] = []
        for _ in range(drawn.choice((1, 1, 5))):
            pieces.append(text[at : at + drawn.randrange(1, 12)])
            at += len(pieces[-1])
        held.append(HeldDelta("".join(pieces), count, pieces if len(pieces) > 1 else ()))
        streamed.add(held[-1])
        count += len(pieces)
        if not drawn.randrange(5):
            streamed.release(0)
            given += take_released(held)
    early = len(given)
    streamed.finish()
    given += take_released(held)
    assert (len(given), held) == (count, [])
    assert "".join(given) == replaced(text, finder.find(text), MARK)
    assert early > count // 4


def test_overdue_text_is_measured_by_its_size() -> None:
    one = block(Finder(BUILT_IN))
    for t in range(10):
        one.add(HeldDelta("abc", t))
    assert one.held == 30
    assert [one.count_before_last(characters) for characters in (10, 9, 0)] == [6, 7, 10]


def test_overdue_text_is_released_by_its_time_although_it_is_not_decided() -> None:
    one = block(Finder(BUILT_IN))
    held = [HeldDelta(text, t) for t, text in enumerate(["password=", "a1", "b2", "c3", "d4"])]
    for delta in held:
        one.add(delta)
    for since, until, waiting in ((-1, 9, 5), (0, 2, 2)):
        one.release_held_since(since, until)
        assert [delta.waits for delta in held] == [False] * (5 - waiting) + [True] * waiting
    one.finish()
    assert not any(delta.waits for delta in held)


@pytest.mark.parametrize("patterns", [(), (pattern("ticket", "TICKET-[0-9]{6}"),)])  # these hold some text back
def test_the_part_of_an_endless_secret_that_is_searched_again_is_bounded(patterns: tuple[Detector, ...]) -> None:
    searched: list[int] = []

    class NotingFinder(Finder):
        def find(self, text: str) -> list[Span]:
            searched.append(len(text))
            return super().find(text)

    one, piece = block(NotingFinder([*BUILT_IN, *patterns])), "x2%^" * (KNOWN_MOST // 16)
    one.add(HeldDelta(f"password={piece}", 0))
    for t in range(1, 12):
        one.add(HeldDelta(piece, t))
        one.release(1)
    assert KNOWN_MOST < max(searched) <= KNOWN_MOST + BEHIND + 2 * len(piece)


def test_empty_deltas_are_released_with_the_others() -> None:
    one = block(Finder(BUILT_IN))
    held = [HeldDelta(text, t) for t, text in enumerate(["", "a", "", "b", ""])]
    for delta in held:
        one.add(delta)
    one.finish()
    assert take_released(held) == ["", "a", "", "b", ""]
