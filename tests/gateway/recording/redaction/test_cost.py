"""The cost of redacting a text made of anchors alone is proportional to its size.

Each anchor of each rule is repeated, with what could follow it, in one text: the same again and again, and each with
another value. The text comes in one frame and its event, or in many deltas.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.recording.format import EventLine, FrameLine, Line, packed
from dragoman.gateway.recording.redaction.field_texts import _json
from dragoman.gateway.recording.redaction.finder import Detector, Finder
from dragoman.gateway.recording.redaction.paths import KEYS_MAX, JsonPaths, _ends, _values, json_path
from dragoman.gateway.recording.redaction.prefixed_keys import PrefixedKeys
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import redact_text, rules
from dragoman.gateway.recording.redaction.shapes import BUILT_IN, PASSWORD_OPTIONS, is_secret_name
from dragoman.gateway.recording.redaction.spans import layers, placeholders, replaced, unescaped
from dragoman.gateway.recording.redaction.values import read_json
from dragoman.mappings.canonical.events import TextDelta, TextDone, ToolCallArguments, ToolCallFinished
from tests.step_counter import GROWTH, growth

SIZES = (8, 16, 32, 64)  # repetitions: the first only fills caches, then two doublings
RULES = rules({}, ["$..pass", "$.arguments.token"], window_bytes=64 * 1024, window_micros=2_000_000)
READERS = frozenset(
    reader.__qualname__
    for reader in (
        *(layers, unescaped, replaced, placeholders(b"")),
        *(Finder._find_all, Finder.find_open, Finder._look),
        *(Detector.matches, Detector.match_open, PrefixedKeys.matches, PrefixedKeys.match_open),
        *(JsonPaths.find, _values, _ends, _json, read_json, is_secret_name),
    )
)
"""Functions that read all of the texts that they are given."""

DETECTORS = [shape for shape in BUILT_IN if isinstance(shape, Detector)]
PREFIXES = (
    "ghp_",
    "sk-",
    "sk-ant-",
    "SG.",
    "1//0",
    "sk.eyJ",
    "$aact_",
    "hooks.slack.com/services/",
)  # of all alphabets
ANCHORS = sorted({anchor for detector in DETECTORS for anchor in detector.anchors} | {*PREFIXES})
TAILS = ("", "=", '="', "='", ": ", "=a1b2c3d4 ", "//a:b@", ".aaaaaaaa")
"""Texts behind an anchor: signs, quotes that never end, a value, a login."""


def alike(unit: str, count: int) -> str:
    return unit * count


def different(unit: str, count: int) -> str:
    return "".join(f"{unit}{number:05d}" if number else unit for number in range(count))


def logins(count: int) -> str:
    return " ".join(f"https://user:pa55w{number:05d}@{'host' * 20}" for number in range(count))


def in_a_frame(text: str) -> list[Line]:
    """Return a frame of a message with this text, and its event."""
    said = json.dumps({"event": "text_done", "data": {"text": text}})
    return [
        FrameLine(seq=1, t=1, link="up", dir="receive", dialect="pod", text=said),
        EventLine(seq=2, t=1, cursor="1:1", event=TextDone(text=text)),
    ]


def in_deltas(text: str) -> list[Line]:
    """Return the text in deltas of 21 characters, each in its own frame."""
    pieces = [text[at : at + 21] for at in range(0, len(text), 21)]
    lines: list[Line] = []
    for number, piece in enumerate(pieces):
        said = json.dumps({"event": "text_delta", "data": {"text": piece}})
        lines += [
            FrameLine(seq=2 * number, t=number, link="up", dir="receive", dialect="pod", text=said),
            EventLine(seq=2 * number + 1, t=number, cursor=f"1:{number}", event=TextDelta(text=piece)),
        ]
    return lines


def redaction(lines: Sequence[Line]) -> Callable[[], object]:
    redactor, steps = Redactor(RULES, b"salt"), list(packed(lines))
    return lambda: (redactor.feed(steps), redactor.finish())


@pytest.mark.parametrize("form", [in_a_frame, in_deltas])
@pytest.mark.parametrize("repeated", [alike, different])
def test_the_cost_of_repeated_anchors_is_proportional_to_their_number(
    repeated: Callable[[str, int], str], form: Callable[[str], list[Line]]
) -> None:
    units = [f"{anchor}{tail}" for anchor, tail in zip(ANCHORS, itertools.cycle(TAILS), strict=False)]
    redaction(form(repeated("&;", SIZES[-1])))()  # what is made once for a text of many deltas
    grown = {
        unit: growth(redaction, [form(repeated(unit, count)) for count in SIZES], READERS)
        for unit in [*units, "://a:b@", '"key":"password","value":"x1y2"']
    }
    assert {unit: times for unit, times in grown.items() if times > GROWTH} == {}


# -- what the end of a text may have cut off --------------------------------------------------------------


def characters_read(detector: Detector, text: str) -> int:
    """Return the number of characters that `match_open` reads at anchors; its patterns never go back."""
    count = 0

    class Counting:
        def __init__(self, pattern: re.Pattern[str], reads: re.Pattern[str]) -> None:
            self.pattern, self.reads = pattern, reads

        def match(self, text: str, at: int) -> re.Match[str] | None:
            nonlocal count
            read = self.reads.match(text, at)
            count += 1 + (read.end() - at if read is not None else 0)
            return self.pattern.match(text, at)

    def counting(pattern: re.Pattern[str] | None) -> Any:
        return pattern and Counting(pattern, re.compile(pattern.pattern.removesuffix(r"\Z")))

    structs.replace(detector, opens=counting(detector.opens), run=counting(detector.run)).match_open(
        text, text.lower(), 0
    )
    return count


@pytest.mark.parametrize("detector", DETECTORS, ids=[f"{one.kind}-{one.anchors[0]}" for one in DETECTORS])
def test_the_end_after_repeated_anchors_is_searched_once_per_run(detector: Detector) -> None:
    for anchor, tail, end in itertools.product(detector.anchors, (*TAILS, "token=", ": x="), (" ", "!", '" ', "@")):
        counts = [characters_read(detector, (anchor + tail) * count + end) for count in SIZES]
        assert all(b <= a * GROWTH for a, b in itertools.pairwise(counts[1:])), (anchor, tail, end)


# -- paths ------------------------------------------------------------------------------------------------

DOCUMENTS: dict[str, Callable[[int], str]] = {
    "arrays in arrays": lambda count: "[" * count,
    "objects in objects": lambda count: '{"a":' * count,
    "many keys": lambda count: '{"pass":{"token":1},"x":' * count,
    "space behind it": lambda count: '{"a":1}' + " " * count,
    "strings with documents": lambda count: json.dumps([json.dumps({"pass": 1})] * count),
    "a string without end": lambda count: '"' * count + "\\",
    "nothing before the first quote": lambda count: "x" * count + '{"pass":1},' * count,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_cost_of_a_document_is_proportional_to_its_size(name: str) -> None:
    paths = JsonPaths(map(json_path, ["$..pass", "$..a..a..a..b", "$.arguments.token"]))
    inputs = [DOCUMENTS[name](10 * count) for count in SIZES]
    assert growth(lambda text: lambda: list(paths.find(text)), inputs, READERS) <= GROWTH


def test_values_nested_too_deep_to_know_their_keys_are_removed() -> None:
    paths = JsonPaths([json_path("$.pass")])
    shallow, deep = ('{"a":' * count + '"swordfish"' + "}" * count for count in (KEYS_MAX, KEYS_MAX + 1))
    assert paths.find(shallow) == []
    assert "swordfish" in "".join(deep[span.start : span.end] for span in paths.find(deep))


# -- frames ------------------------------------------------------------------------------------------------

FRAMES: dict[str, Callable[[int], str]] = {
    "keys that stand twice": lambda count: json.dumps([{f"k{number}": "a"} for number in range(count)] * 2),
    "ids and numbers": lambda count: "{" + ",".join(f'"id":"x{number}","n":{number}' for number in range(count)) + "}",
    "different secrets": lambda count: json.dumps({"x": logins(count)}),  # LARGE (frame_redactor.py) at each size
    "pieces of a row": lambda count: json.dumps([{"text": "secret=a1b2c3 sec"}, {"text": "ret=a1b2c3 "}] * count),
    "escapes": lambda count: json.dumps({"x": '"' * count}),
    "names of secrets": lambda count: json.dumps({"x" * count + f"{number}key": 1 for number in range(9)}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_the_cost_of_a_frame_is_proportional_to_its_size(name: str) -> None:
    def frame(text: str) -> list[Line]:
        return [FrameLine(seq=1, t=1, link="up", dir="receive", dialect="pod", text=text)]

    inputs = [frame(FRAMES[name](10 * count)) for count in SIZES]
    assert growth(redaction, inputs, READERS) <= GROWTH


def test_the_cost_of_many_similar_frames_with_secrets_is_proportional_to_their_number() -> None:
    def frames(count: int) -> list[Line]:
        texts = [json.dumps({"event": "text_delta", "data": {"text": f"key=a1b2c3d{n} "}}) for n in range(count)]
        return [
            FrameLine(seq=n, t=n, link="up", dir="receive", dialect="pod", text=text) for n, text in enumerate(texts)
        ]

    assert growth(redaction, [frames(4 * count) for count in SIZES], READERS) <= GROWTH


@pytest.mark.parametrize("is_one_step", [True, False])
def test_the_cost_of_tool_calls_that_are_open_at_one_time_is_proportional_to_their_number(is_one_step: bool) -> None:
    def work(count: int) -> Callable[[], object]:
        calls = [f"call-{number}" for number in range(count)]
        events: list[Any] = [ToolCallArguments(call=call, json=f"password=hunter2{call} ") for call in calls]
        events += [ToolCallFinished(call=call) for call in calls]
        lines = [
            EventLine(cursor=f"1:{number}", event=event, turn="t", seq=number, t=0 if is_one_step else number)
            for number, event in enumerate(events, start=1)
        ]
        redactor = Redactor(RULES, b"salt")
        return lambda: redactor.feed(list(packed(lines)), len(lines))

    assert growth(work, [16, 64, 128, 256], READERS) < GROWTH


@pytest.mark.parametrize("option", PASSWORD_OPTIONS)
def test_an_option_of_another_command_is_tried_by_no_pattern(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 16 KiB, which is redacted on the event loop, may have 5,000 options: a pattern took 20 µs for each."""
    monkeypatch.delitem(PASSWORD_OPTIONS, option)
    text = f"mkdir {option} a1b2c3d4 " * 3
    assert redact_text(text) == text
