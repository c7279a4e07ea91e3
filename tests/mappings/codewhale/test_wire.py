"""Errors about params in the words of the real server, shapes of results, and members that do not fit."""

from __future__ import annotations

from typing import get_args

from msgspec import inspect

from dragoman.mappings.codec import Codec
from dragoman.mappings.codewhale.wire import lines
from dragoman.mappings.codewhale.wire.codecs import EVENTS, CodewhalePruner
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
from tests.mappings.codewhale.golden import GOLDEN
from tests.mappings.golden import fields_of, said


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
    seen = {field for frame in GOLDEN.events for field in said(EVENTS.decode(frame))}
    for kind in (*get_args(Result), Answer):
        assert set(fields_of(inspect.type_info(kind))) - seen == set()


def test_each_line_that_may_contain_any_json_is_checked_for_its_depth() -> None:
    assert Codec("codewhale", lines.Line, max_depth=1).watched < EVENTS.watched
