from __future__ import annotations

import json

import pytest

from dragoman.gateway.recording.redaction.field_texts import OFTEN, OFTEN_MAX, FieldText, FieldTexts

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


def heard(frames: list[str]) -> set[str]:
    """Return the texts of all places, each joined from its pieces."""
    fields = FieldTexts()
    for index, frame in enumerate(frames):
        fields.add_frame(index, WIRE, frame)
    return {together(field_text) for field_text in fields.take_touched()}


WORDS = [f"w{at} " for at in range(3 * OFTEN)]
WORDS[5], WORDS[20], WORDS[-3] = "a\nb", 'said "so"', "ß😀\\"


@pytest.mark.parametrize("make", [lambda w, _at: pod(w), smooth, pando], ids=["pod", "smooth", "pando"])
def test_text_of_one_place_is_joined_however_its_frames_are_read(make: object) -> None:
    frames = [make(word, at) for at, word in enumerate(WORDS)]  # type: ignore[operator]  # one of three functions
    assert "".join(WORDS) in heard(frames)


def test_in_a_known_shape_only_the_words_are_new() -> None:
    fields = FieldTexts()
    assert fields.add_frame(0, WIRE, pod("one")) is not None
    assert [fields.add_frame(at, WIRE, pod(f"w{at}")) for at in range(1, 40)] == [None] * 39
    assert fields.add_frame(40, WIRE, pod("x").replace("data", "password")) is not None


def test_an_id_that_changes_is_searched_in_a_known_shape() -> None:
    fields = FieldTexts()
    for at in range(2 * OFTEN):
        fields.add_frame(at, WIRE, smooth("x", at))
    fields.take_alone()
    assert fields.add_frame(99, WIRE, smooth("x", 99).replace('"r"', '"other"')) is None
    assert fields.take_alone() == {"other": [99, 99]}
    assert fields.add_frames([100, 101], WIRE, "\n".join(smooth("x", at).replace('"r"', f'"{at}"') for at in (7, 8)))
    assert fields.take_alone() == {"7": [100, 100], "8": [101, 101]}


def test_a_frame_of_another_type_has_another_shape() -> None:
    fields = FieldTexts()
    for at in range(2 * OFTEN):
        fields.add_frame(at, WIRE, smooth("x", at))
    assert fields.add_frame(99, WIRE, smooth("x", 99).replace("stream_token", "stream_taken")) is not None


def test_texts_of_two_calls_and_of_two_wires_are_kept_apart() -> None:
    fields = FieldTexts()
    for at in range(3 * OFTEN):
        for call in "ab":
            frame = {"event": "tool_call_args_delta", "data": {"id": call, "json": call}}
            fields.add_frame(at, WIRE, json.dumps(frame))
            fields.add_frame(at, ("c1", "send"), json.dumps(frame))
    texts = sorted(map(together, fields.take_touched()))
    assert texts == ["a" * 3 * OFTEN] * 2 + ["b" * 3 * OFTEN] * 2


def test_the_remembered_shapes_are_bounded() -> None:
    fields = FieldTexts()
    for at in range(5000):
        fields.add_frame(at, WIRE, json.dumps({f"key{at}": "x"}))
    fields.forget_excess()
    fields.take_touched()
    fields.add_frame(0, WIRE, json.dumps({"key1": "y"}))
    assert [field_text.parts for field_text in fields.take_touched()] == [[((0,), ("y",))]]


@pytest.mark.parametrize(
    "frame", ["", "null", "[]", '"', "{", "no JSON", '{"a":"b', "\\", '{"a":"\\ud83d"}', "[" * 2000 + "\\"]
)
def test_any_frame_can_be_read(frame: str) -> None:
    assert FieldTexts().add_frame(0, WIRE, frame) is not None


def test_a_shape_evicted_by_others_is_remembered_again_when_it_is_frequent() -> None:
    fields = FieldTexts()
    for at in range(2 * OFTEN):
        fields.add_frame(at, WIRE, pod(f"w{at}"))
    assert fields.add_frames(range(3), WIRE, "\n".join(map(pod, "abc")))
    for other in range(2 * OFTEN_MAX):
        for at in range(2 * OFTEN):
            fields.add_frame(at, WIRE, json.dumps({"event": f"e{other}", "data": {"text": f"w{at}"}}))
    assert not fields.add_frames(range(3), WIRE, "\n".join(map(pod, "abc")))
    for at in range(2 * OFTEN):
        fields.add_frame(at, WIRE, pod(f"w{at}"))
    assert fields.add_frames(range(3), WIRE, "\n".join(map(pod, "abc")))
