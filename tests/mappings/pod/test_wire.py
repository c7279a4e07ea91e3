"""Input of the codecs beyond the vectors: limits, depth, duplicate keys, other spellings, garbage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from tests.mappings.round_trip import any_json, back_and_forth


def event(frame: bytes) -> tuple[Step[Any], list[bytes]]:
    return back_and_forth(DIALECT.events, frame)


def method(frame: bytes) -> tuple[Step[Any], list[bytes]]:
    return back_and_forth(DIALECT.commands, frame)


def codes(step: Step[Any]) -> list[str]:
    return [fault.code for fault in step.faults]


SNAPSHOT = (
    b'{"event":"snapshot","data":{"entries":[],"greeting":{"pod_name":"a","cwd":"","provider":"p","model":"",'
    b'"scope_summary":"","tools":[],"context_window":0,"context_tokens":0},"status":"idle"}}'
)
U64_FIELDS = [
    b'{"event":"turn_start","data":{"turn":%d}}',
    b'{"event":"turn_end","data":{"turn":%d,"result":"finished"}}',
    b'{"event":"llm_call_start","data":{"llm_call":%d}}',
    b'{"event":"llm_call_end","data":{"llm_call":%d}}',
    b'{"event":"llm_retry","data":{"llm_call":%d,"failed_attempt":1,"max_attempts":1,"wait_ms":1,"elapsed_ms":1,"error":""}}',
    b'{"event":"llm_retry","data":{"llm_call":1,"failed_attempt":1,"max_attempts":1,"wait_ms":%d,"elapsed_ms":1,"error":""}}',
    b'{"event":"llm_retry","data":{"llm_call":1,"failed_attempt":1,"max_attempts":1,"wait_ms":1,"elapsed_ms":%d,"error":""}}',
    b'{"event":"llm_continuation","data":{"llm_call":%d,"attempt":1,"max_attempts":1,"reason":""}}',
    b'{"event":"usage","data":{"input_tokens":%d,"output_tokens":null}}',
    b'{"event":"usage","data":{"input_tokens":null,"output_tokens":%d}}',
    b'{"event":"usage","data":{"input_tokens":1,"output_tokens":1,"cache_read_input_tokens":%d}}',
    SNAPSHOT.replace(b'"context_window":0', b'"context_window":%d'),
    SNAPSHOT.replace(b'"context_tokens":0', b'"context_tokens":%d'),
]


@pytest.mark.parametrize("form", U64_FIELDS)
def test_u64_fields_accept_exactly_their_range(form: bytes) -> None:
    frame = form % ((1 << 64) - 1)
    assert event(frame)[1] == [frame]
    assert [codes(event(form % value)[0]) for value in (1 << 64, -1)] == [["invalid"]] * 2


ALERT = b'{"event":"alert","data":{"level":"warn","source":"pod","message":"m","timestamp_ms":%d}}'


@pytest.mark.parametrize("value", [-(1 << 63), -1, 0, (1 << 63) - 1])
def test_timestamps_accept_all_of_i64(value: int) -> None:
    frame = ALERT % value
    assert event(frame)[1] == [frame]


def test_timestamps_above_i64_are_refused() -> None:
    assert codes(event(ALERT % (1 << 63))[0]) == ["invalid"]


def nested(depth: int) -> bytes:
    """Return a pod inspection with this many levels in total."""
    inner = depth - 2
    return b'{"event":"pod_inspection","data":{"pod":' + b"[" * inner + b"]" * inner + b"}}"


def test_128_levels_are_accepted() -> None:
    assert event(nested(128))[1] == [nested(128)]


@pytest.mark.parametrize("depth", [129, 1000, 100_000])
def test_more_than_128_levels_are_too_deep(depth: int) -> None:
    step, frames = event(nested(depth))
    assert (codes(step), frames) == (["too_deep"], [])


def test_colons_in_text_are_no_duplicate_keys() -> None:
    frame = b'{"method":"notify","params":{"message":"a:b::c \\\\u003a"}}'
    assert method(frame)[1] == [frame]


def test_a_segment_of_unknown_kind_is_unknown_in_events_too() -> None:
    frame = (
        b'{"event":"user_message","data":{"segments":[{"kind":"flow","selector":"x"},{"kind":"text","content":"y"}]}}'
    )
    said = b'{"event":"user_message","data":{"segments":[{"kind":"unknown"},{"kind":"text","content":"y"}]}}'
    assert event(frame)[1] == [said]


@pytest.mark.parametrize("segment", [b'{"kind":"paste","content":"x"}', b'{"kind":1}', b"{}", b'"text"', b"null"])
def test_known_segments_with_a_missing_field_are_refused(segment: bytes) -> None:
    frame = b'{"event":"user_message","data":{"segments":[' + segment + b"]}}"
    assert codes(event(frame)[0]) == ["invalid"]


def test_an_event_may_be_an_array_of_name_and_content() -> None:
    assert event(b'["text_delta",{"text":"x"}]')[1] == [b'{"event":"text_delta","data":{"text":"x"}}']


def test_undocumented_keys_are_dropped_and_named() -> None:
    step, frames = event(b'{"event":"text_delta","seq":4,"data":{"text":"x","lang":"en"}}')
    assert frames == [b'{"event":"text_delta","data":{"text":"x"}}']
    assert sorted(loss.field for loss in step.losses) == ["$.data.lang", "$.seq"]


def test_keys_of_opaque_values_are_sorted_at_every_level() -> None:
    step, frames = event(b'{"event":"pod_inspection","data":{"pod":{"z":[{"b":1,"a":2}],"a":{"d":null,"c":1.5}}}}')
    assert step.faults == []
    assert frames == [b'{"event":"pod_inspection","data":{"pod":{"a":{"c":1.5,"d":null},"z":[{"a":2,"b":1}]}}}']


@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\\ud83d", b"\\udc00"])
def test_invalid_utf8_in_an_opaque_value_is_found(text: bytes) -> None:
    step, frames = event(b'{"event":"system_item","data":{"item":{"body":"' + text + b'"}}}')
    assert (len(step.faults), frames) == (1, [])


JSON = any_json(keys=st.text(max_size=4) | st.just("kind"))


@given(st.sampled_from(["snapshot", "system_item", "segment_rotated", "visible_pods", "pod_inspection"]), JSON)
def test_an_opaque_value_may_be_any_json(name: str, value: object) -> None:
    greeting = {"pod_name": "a", "cwd": "", "provider": "p", "model": "", "scope_summary": "", "tools": []}
    contents = {
        "snapshot": {
            "entries": [value],
            "greeting": {**greeting, "context_window": 0, "context_tokens": 0},
            "status": "idle",
        },
        "system_item": {"item": value},
        "segment_rotated": {"entry": value},
        "visible_pods": {"pods": [value]},
        "pod_inspection": {"pod": value},
    }
    step, frames = event(json.encode({"event": name, "data": contents[name]}))
    assert step.faults == []
    assert [json.decode(frame)["data"] for frame in frames] == [contents[name]]
