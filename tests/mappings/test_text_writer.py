"""A writer of further text gives exactly the frames that the rendering of a whole batch gives, in every dialect."""

from __future__ import annotations

import pytest

from dragoman.gateway.registry import dialect as dialect_named
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.events import (
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningStarted,
    TextDelta,
    TurnAccepted,
)
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.smooth.vocabulary import SEED

TURN = "8a1d9a08-6a4b-4c8e-8f0e-0d5f9b6c2a11"
AT = 1_700_000_000_123_000_000


def batch(*events: Event, seq: int = 0) -> Batch:
    return Batch(
        session="5b1d9a08-6a4b-4c8e-8f0e-0d5f9b6c2a22",
        epoch=0,
        first_seq=seq,
        events=list(events),
        turn=TURN,
        origin=Origin(link="a", request="r1"),
        at=AT,
    )


TEXTS = ["more", 'quotes " and \\ and\nlines', "\u00e4\u2028\U0001f40b", "x" * 1_100_000]


@pytest.mark.parametrize("request_id", ["", "r1"])
@pytest.mark.parametrize("dialect", ["smooth", "pod", "pando", "codewhale"])
@pytest.mark.parametrize("text", TEXTS)
def test_further_text_is_written_as_it_is_rendered(dialect: str, request_id: str, text: str) -> None:
    projection = dialect_named(dialect).projection(request_id, "")
    projection.render(batch(TurnAccepted(request="r1"), ModelTurnStarted(), TextDelta(text="begun ")))
    write = projection.text_writer(TextDelta)
    assert write is not None
    rendered = projection.copy().render(batch(TextDelta(text=text), seq=3)).frames
    assert write(text, AT) == rendered


@pytest.mark.parametrize("request_id", ["", "r1"])
@pytest.mark.parametrize("dialect", ["smooth", "pod"])
@pytest.mark.parametrize("text", TEXTS)
def test_further_reasoning_is_written_as_it_is_rendered(dialect: str, request_id: str, text: str) -> None:
    projection = dialect_named(dialect).projection(request_id, "")
    begun = (TurnAccepted(request="r1"), ModelTurnStarted(), ReasoningStarted(), ReasoningDelta(text="begun "))
    projection.render(batch(*begun))
    write = projection.text_writer(ReasoningDelta)
    assert write is not None
    rendered = projection.copy().render(batch(ReasoningDelta(text=text), seq=4)).frames
    assert write(text, AT) == rendered


@pytest.mark.parametrize(("dialect", "view"), [("pando", ""), ("codewhale", ""), ("smooth", SEED)])
def test_reasoning_has_no_fast_writer_in_a_dialect_that_counts_it_as_lost_or_keeps_it_for_the_end(
    dialect: str, view: str
) -> None:
    assert dialect_named(dialect).projection("r1", view).text_writer(ReasoningDelta) is None
