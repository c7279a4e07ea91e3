"""Errors about params in the words of the real server, shapes of results, and members that do not fit."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import inspect

from dragoman.mappings.codec import Codec
from dragoman.mappings.codewhale.wire import lines
from dragoman.mappings.codewhale.wire.codecs import EVENTS, REQUESTS, CodewhalePruner
from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.results import (
    Answer,
    AppResponse,
    Capabilities,
    Health,
    Interrupted,
    Result,
    Stopped,
    ThreadResponse,
    shape_of,
)
from dragoman.mappings.errors import PeerError
from tests.mappings.golden import GOLDEN, fields_of, said


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (b"{}", "missing field `thread_id`"),
        (b'{"thread_id":7}', "invalid type: integer `7`, expected a string"),
        (b'{"thread_id":true}', "invalid type: boolean `true`, expected a string"),
        (b'{"thread_id":1.5}', "invalid type: floating point `1.5`, expected a string"),
        (b'{"thread_id":null}', "invalid type: null, expected a string"),
        (b'{"thread_id":[]}', "invalid type: sequence, expected a string"),
        (b'{"thread_id":{}}', "invalid type: map, expected a string"),
    ],
)
def test_wrong_params_are_refused_in_the_words_of_the_real_server(params: bytes, text: str) -> None:
    with pytest.raises(PeerError) as error:
        REQUESTS.mend(b'{"id":1,"method":"thread/read","params":%b}' % params)
    assert error.value.text == text


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("thread/list", '{"limit":-1}', "invalid value: integer `-1`, expected usize"),
        ("thread/list", '{"limit":"x"}', 'invalid type: string "x", expected usize'),
        ("thread/list", '{"limit":1.5}', "invalid type: floating point `1.5`, expected usize"),
        (
            "thread/list",
            '{"limit":18446744073709551616}',
            "invalid type: floating point `1.8446744073709552e+19`, expected usize",
        ),
        *(
            ("prompt/run", f'{{"prompt":"p","{name}":{value}}}', f"invalid {text}, expected a nonzero u32")
            for name in ("maxOutputTokens", "max_output_tokens")
            for value, text in (
                ("0", "value: integer `0`"),
                ("-1", "value: integer `-1`"),
                ("4294967296", "value: integer `4294967296`"),
                ('"a"', 'type: string "a"'),
                ("1.5", "type: floating point `1.5`"),
            )
        ),
        ("thread/list", "[true,5,7]", "invalid length 3, expected fewer elements in array"),
        (
            "thread/goal/set",
            '{"thread_id":"t","objective":"o","token_budget":"5"}',
            'invalid type: string "5", expected i64',
        ),
        ("thread/request", '{"kind":7}', "invalid type: integer `7`, expected variant identifier"),
        ("thread/request", "null", "invalid type: null, expected internally tagged enum ThreadRequest"),
        ("app/request", "null", "invalid type: null, expected internally tagged enum AppRequest"),
        ("thread/request", "{}", "missing field `kind`"),
    ],
)
def test_wrong_params_of_other_methods_are_refused_in_the_words_of_the_real_server(
    method: str, params: str, text: str
) -> None:
    with pytest.raises(PeerError) as error:
        REQUESTS.mend(f'{{"id":1,"method":"{method}","params":{params}}}'.encode())
    assert error.value.text == text


def test_a_result_is_recognised_by_its_members() -> None:
    assert shape_of({"thread_id", "interrupted"}) is Interrupted
    assert shape_of({"thread_id", "status", "ok", "data"}) is ThreadResponse
    assert shape_of({"ok", "data", "events"}) is AppResponse
    assert (shape_of({"ok", "status"}), shape_of({"methods"}), shape_of({"status", "service"})) == (
        Stopped,
        Capabilities,
        Health,
    )
    assert shape_of({"ok"}) is None


def test_values_of_a_wrong_type_are_left_for_the_decoder_to_refuse() -> None:
    pruner = CodewhalePruner()
    for value in ([1], {"event": 5}, {"event": "error", "message": []}):
        assert pruner.prune(value, inspect.type_info(EventFrame)) == value
    assert pruner.dropped == []


def test_every_documented_field_of_a_result_and_of_its_frames_is_in_a_golden_frame() -> None:
    seen = {field for frame in GOLDEN["codewhale", "events"] for field in said(EVENTS.decode(frame))}
    for kind in (*get_args(Result), Answer):
        assert set(fields_of(inspect.type_info(kind))) - seen == set()


def test_each_line_that_may_contain_any_json_is_checked_for_its_depth() -> None:
    assert Codec("codewhale", lines.Line, max_depth=1).watched < EVENTS.watched
