from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from dragoman.gateway.recording.format import FrameLine, StepLine
from dragoman.gateway.recording.redaction import field_texts
from dragoman.gateway.recording.redaction.field_texts import ANY_WORD, LONG, UNFINISHED_MAX, FieldText, FieldTexts
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.frame_redactor import FrameRedactor
from dragoman.gateway.recording.redaction.shapes import TOKEN
from tests.step_counter import GROWTH, growth

WIRE = ("up", "receive")


def pod(text: str) -> str:
    return json.dumps({"event": "text_delta", "data": {"text": text}}, separators=(",", ":"), ensure_ascii=False)


def smooth(text: str, at: int) -> str:
    data = {"requestId": "r", "token": text}
    return json.dumps({"type": "stream_token", **data, "data": data, "timestamp": 1_700_000_000 + at})


def pando(text: str, at: int) -> str:
    payload = {"session_id": "s", "token": text}
    event = {"topic": "llm.token", "timestamp": f"2026-11-21T00:54:22.{at:09}Z", "payload": payload}
    return f"llm.token\0{json.dumps(event)}"


def together(field_text: FieldText) -> str:
    return "".join(word for _, words in field_text.parts for word in words)


def add(fields: FieldTexts, number: int, frame: str, tap: tuple[str, str] = WIRE) -> None:
    fields.add(fields.parse(tap, frame), (number,))


def heard(frames: list[str]) -> set[str]:
    """Return the texts of all places, each joined from its pieces."""
    fields = FieldTexts()
    for number, frame in enumerate(frames):
        add(fields, number, frame)
    return {together(field_text) for field_text in fields.take()[1]}


WORDS = [f"w{at} " for at in range(24)]
WORDS[5], WORDS[20], WORDS[-3] = "a\nb", 'said "so"', "ß😀\\"


@pytest.mark.parametrize("make", [lambda w, _at: pod(w), smooth, pando], ids=["pod", "smooth", "pando"])
def test_text_of_one_place_is_joined_with_and_without_escapes(make: Callable[[str, int], str]) -> None:
    frames = [make(word, at) for at, word in enumerate(WORDS)]
    assert "".join(WORDS) in heard(frames)


def test_alike_frames_are_parsed_once_for_all_of_their_words() -> None:
    fields = FieldTexts()
    sample = smooth("x", 0).replace('"x"', f'"{ANY_WORD}"')
    fields.add(fields.parse(WIRE, sample), range(3), ["a", "b", "c"])
    add(fields, 3, smooth("d", 9))
    alone, touched = fields.take()
    assert set(map(together, touched)) == {"abcd"}
    assert set(alone) == {"{", "stream_token", "r"}


def test_an_id_is_searched_alone_in_each_frame() -> None:
    fields = FieldTexts()
    for number, request in enumerate(("one", "other")):
        add(fields, number, smooth("x", number).replace('"r"', f'"{request}"'))
    alone, _ = fields.take()
    assert (alone["one"], alone["other"]) == ([0, 0], [1, 1])


def test_each_value_of_a_key_that_is_repeated_is_found() -> None:
    assert heard(['{"text":"a","text":"b"}']) == {"a", "b"}


def test_texts_of_a_frame_that_is_cut_off_are_found() -> None:
    assert heard(['{"text":"a","more":"b', '{"text":"c"']) == {"ac", "b"}


def test_texts_of_two_calls_and_of_two_wires_are_kept_apart() -> None:
    fields = FieldTexts()
    for at in range(24):
        for call in "ab":
            frame = json.dumps({"event": "tool_call_args_delta", "data": {"id": call, "json": call}})
            add(fields, at, frame)
            add(fields, at, frame, ("c1", "send"))
    texts = sorted(map(together, fields.take()[1]))
    assert texts == ["a" * 24] * 2 + ["b" * 24] * 2


def test_the_remembered_fields_are_bounded() -> None:
    fields = FieldTexts()
    forgotten = False
    for at in range(5000):
        add(fields, at, json.dumps({f"key{at}": "x"}))
        forgotten = forgotten or fields.forget_excess()
    assert forgotten


def test_a_text_is_ended_once_however_many_frames_were_emptied_behind_it() -> None:
    def emptied(count: int) -> Callable[[], None]:
        def work() -> None:
            fields = FieldTexts()
            for number in range(0, 2 * count, 2):
                add(fields, number, pod("a"))
                fields.begin_anew(WIRE, number + 1)

        return work

    assert growth(emptied, [100, 200, 400]) < GROWTH


@pytest.mark.parametrize("frame", [{"id": "{}", "text": "a"}, {"{}": "a"}, {"type": "{}", "text": "a"}])
def test_long_keys_ids_and_kinds_are_not_kept(frame: dict[str, str]) -> None:
    fields = FieldTexts()
    tracemalloc.start()
    try:
        for at in range(100):
            add(fields, at, json.dumps(frame).replace("{}", f"{at}{'x' * 10_000}"))
            fields.take()
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_the_remembered_long_secrets_are_bounded() -> None:
    fields = FieldTexts()
    for at in range(2 * UNFINISHED_MAX):
        field_text = FieldText(("up", "receive"), behind="password=" + "x" * LONG)
        fields.note_unfinished(field_text)
        assert fields.forget_excess() == (at == UNFINISHED_MAX)


def test_frames_that_may_hold_long_secrets_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(field_texts, "UNFINISHED_MAX", 4)
    redactor = FrameRedactor(Finder([TOKEN]), lambda *_told: None, (), streams_are_clean=False)
    tracemalloc.start()
    try:
        for number in range(100):
            text = json.dumps({"id": str(number), "text": "token=" + "x" * 8_000})
            frame = FrameLine(link="c1", dir="receive", dialect="codewhale", text=text)
            redactor.redact([StepLine(seq=number, t=number, frames=[frame])])
        assert tracemalloc.get_traced_memory()[0] < 400_000
    finally:
        tracemalloc.stop()


def test_a_secret_that_has_ended_does_not_count_as_a_long_one() -> None:
    fields = FieldTexts()
    for _ in range(2 * UNFINISHED_MAX):
        field_text = FieldText(("up", "receive"), behind="password=" + "x" * LONG)
        fields.note_unfinished(field_text)
        field_text.behind = "password=x and more"
        assert not fields.forget_excess()


@pytest.mark.parametrize(
    "frame", ["", "null", "[]", '"', "{", "no JSON", '{"a":"b', "\\", '{"a":"\\ud83d"}', "[" * 2000 + "\\"]
)
def test_any_frame_can_be_read(frame: str) -> None:
    fields = FieldTexts()
    add(fields, 0, frame)
    assert [0] in fields.take()[0].values()
