"""Pieces of a text that came together are encoded as each by itself, in every dialect."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from msgspec import json

from dragoman.gateway import registry
from dragoman.mappings.alike import LONGEST, MANY, MARKS, TEXT, encode_alike, strings_around, writer_of
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import ModelTurnStarted, ReasoningDelta, TextDelta, TurnAccepted
from tests.mappings.test_text_writer import AT, TEXTS, batch

PIECES = [*TEXTS[:-1], "x" * LONGEST, *map(str, range(MANY))]


def rendered(dialect: str, request: str, *batches: list[Event]) -> list[bytes]:
    """Return the frames of these batches of one turn, without those with which the turn begins."""
    projection = registry.dialect(dialect).projection(request, "")
    projection.render(batch(TurnAccepted(request="r1"), ModelTurnStarted(), TextDelta(text="begun ")))
    return [frame for events in batches for frame in projection.render(batch(*events, seq=3)).frames]


@pytest.mark.parametrize("delta", [TextDelta, ReasoningDelta])
@pytest.mark.parametrize("dialect", registry.OURS)
def test_pieces_that_came_together_are_written_as_each_by_itself(
    dialect: str, delta: type[TextDelta | ReasoningDelta]
) -> None:
    for request_id, added in product(("", "r1", TEXTS[1], *MARKS), ([], [""], ["x" * 1_100_000])):
        pieces: list[Event] = [delta(text=text) for text in (*PIECES, *added)]
        together = rendered(dialect, request_id, pieces)
        assert together == rendered(dialect, request_id, *([piece] for piece in pieces)), request_id
        assert together or (dialect in ("pando", "codewhale") and delta is ReasoningDelta)


@pytest.mark.parametrize(
    "other", [ReasoningDelta(text="r"), ModelTurnStarted(), TextDelta(text=""), TextDelta(text="x" * (LONGEST + 1))]
)
def test_only_pieces_of_one_type_with_short_texts_are_alike(other: Event) -> None:
    pieces: list[Event] = [TextDelta(text="a")] * MANY
    assert encode_alike(pieces, TEXT, lambda piece: b"<%b>" % json.encode(piece.text)) == [b'<"a">'] * MANY
    assert encode_alike([*pieces, other], TEXT, lambda _piece: b"") is None
    assert encode_alike([ReasoningDelta(text="r")] * MANY, TEXT, lambda _piece: b"") is None


@pytest.mark.parametrize("request_id", ["", "r1", *MARKS])
@pytest.mark.parametrize("dialect", registry.OURS)
def test_the_strings_around_a_text_are_those_in_each_frame_of_its_writer(dialect: str, request_id: str) -> None:
    projection = registry.dialect(dialect).projection(request_id, "")
    projection.render(batch(TurnAccepted(request="r1"), ModelTurnStarted(), TextDelta(text="begun ")))
    write = projection.text_writer(TextDelta)
    assert write is not None
    around = strings_around(write)
    if dialect == "pando" or (dialect == "smooth" and request_id in MARKS):
        assert around is None, "the time is not in ms, or a mark is an id as well"
        return
    assert around is not None
    time, joined = b"%d" % (AT // 1_000_000), writer_of(around)
    for text in TEXTS[:-1]:
        frames = [json.encode(text).join([time.join(pieces) for pieces in around])]
        assert write(text, AT) == joined(text, AT) == frames
    assert joined("later", 2 * AT) == write("later", 2 * AT)


@pytest.mark.parametrize("frames", [[], [b"no text"]])
def test_frames_without_the_text_have_no_strings_around_it(frames: list[bytes]) -> None:
    assert strings_around(lambda _text, _at: frames) is None


@pytest.mark.parametrize("escape", [str, lambda text: json.encode(text).replace(b"<", b"\\u003c").decode()])
def test_frames_that_escape_a_character_in_another_way_have_no_strings_around_it(escape: Callable[[str], str]) -> None:
    assert strings_around(lambda text, _at: [escape(text).encode()]) is None


def test_a_text_in_two_frames_has_no_strings_around_it() -> None:
    assert strings_around(lambda text, _at: [json.encode(text)]) is not None
    assert strings_around(lambda text, _at: [json.encode(text), b"{}"]) is None
