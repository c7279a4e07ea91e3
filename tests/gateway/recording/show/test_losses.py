from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.gateway import registry
from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.projected import LossFinder
from dragoman.mappings.canonical.events import TextDelta, ToolCallArguments, ToolOutputDelta
from dragoman.mappings.dialect import Dialect
from tests.gateway.recording.lines import FROZEN

CALL = ToolCallArguments(call="c", name="ls", json="{}", done=True)
WITHOUT_CALL = "smooth clients get it without call"


def frame(dialect: str, link: str = "") -> FrameLine:
    return FrameLine(seq=1, t=0, link=link or f"{dialect}-1", dir="receive", dialect=dialect, text="{}")


def lost(lines: Sequence[Line], finder: LossFinder | None = None) -> dict[int, list[str]]:
    finder = finder or LossFinder("s", registry.dialect)
    found = {line.seq: finder.take(line.seq) for line in finder.lines(lines)}
    return {seq: texts for seq, texts in found.items() if texts}


def event(seq: int, event: object, t: int = 0) -> EventLine:
    return EventLine(seq=seq, t=t, cursor=f"1:{seq}", turn="t", event=event)  # type: ignore[arg-type]  # an Event


def test_fields_that_a_client_does_not_get_are_named() -> None:
    assert lost([frame("smooth"), event(2, CALL)]) == {2: [WITHOUT_CALL]}


def test_an_event_that_a_client_does_not_get_has_the_reason_of_its_rule() -> None:
    rule = registry.dialect("pod").events.from_canonical.entries[ToolOutputDelta].fidelity
    why = getattr(rule, "why", "")
    assert why
    lines: list[Line] = [frame("pod"), event(2, CALL), event(3, ToolOutputDelta(call="c", text="a"))]
    assert lost(lines)[3] == [f"pod clients do not get it: {why}"]


def test_a_dialect_counts_from_the_first_frame_of_its_client() -> None:
    lines: list[Line] = [event(1, CALL), frame("smooth"), event(3, CALL, t=5)]
    assert lost(lines) == {3: [WITHOUT_CALL]}


def test_the_dialect_of_the_backend_loses_no_fields() -> None:
    lines: list[Line] = [frame("smooth", link="up"), frame("smooth"), event(2, CALL)]
    assert lost(lines) == {}


def test_all_lines_are_yielded_in_their_order() -> None:
    lines = list(open_recording(FROZEN / "v4-streams.jsonl").lines())
    assert list(LossFinder("s", registry.dialect).lines(lines)) == lines


def test_a_dialect_that_is_not_installed_is_left_out() -> None:
    assert lost([frame("latin"), frame("smooth"), event(2, CALL)]) == {2: [WITHOUT_CALL]}


def test_events_that_cannot_be_rendered_are_shown_without_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, dialect: Dialect) -> None:
            pass

        def render(self, batch: object) -> None:
            raise RuntimeError

    monkeypatch.setattr("dragoman.gateway.recording.show.projected.ProjectedSession", Broken)
    lines: list[Line] = [frame("smooth"), event(2, CALL), event(3, TextDelta(text="a"), t=5)]
    finder = LossFinder("s", registry.dialect)
    assert [line.seq for line in finder.lines(lines)] == [1, 2, 3]
    assert finder.take(2) == []
