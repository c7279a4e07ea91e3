"""Steps that a redactor is given as they are: how long it holds them, and secrets in those that no gateway wrote."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from operator import attrgetter

import pytest
from msgspec import Raw, structs

from dragoman.gateway.recording.format import EventLine, FrameLine, Line, Round, StepLine
from dragoman.gateway.recording.redaction.redactor import Finding, Redactor
from dragoman.gateway.recording.redaction.rules import EVER, RedactionRules, rules
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import HistorySnapshot, TextDelta, ToolCallArguments, ToolOutputDelta
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Oversize, Parts
from tests.gateway.recording.lines import all_released, frame_at, lines_of, raw, released, steps_of
from tests.gateway.recording.redaction.test_redactor import KEY, MARK, OFF, SALT, said, stream


def tokens(seq: int, *texts: str, around: Sequence[str] = ('{"event":"text_delta","data":{"text":', "}}")) -> StepLine:
    """Return deltas, and the frames of a pod in which they came."""
    frames = FrameLine(link="up", dir="receive", dialect="pod", around=[[part] for part in around])
    deltas = EventLine(cursor=f"1:{seq}", event=TextDelta(text=""), texts=list(texts))
    rounds = [Round(len(texts), seq * 1000, 0)]
    return StepLine(seq=seq, t=seq * 1000, frames=[frames], events=[deltas], rounds=rounds)


def test_no_line_waits_longer_than_the_window() -> None:
    redactor = Redactor(RedactionRules(window_micros=2_000_000), SALT)
    line = EventLine(seq=1, t=0, cursor="1:1", event=TextDelta(text=f"it is {KEY[:9]}"))
    assert released(redactor, [line]) == []
    assert released(redactor, [], now=1_999_999) == []
    assert redactor.since == 0
    left = list(lines_of(released(redactor, [], now=2_000_000)))
    assert said(left) == f"it is {MARK('api_key', KEY[:9])}"
    assert redactor.since is None


def test_text_in_which_no_secret_begins_waits_for_half_of_the_window() -> None:
    redactor = Redactor(RedactionRules(window_micros=2_000_000), SALT)
    first, second, key, more = [
        EventLine(seq=seq, t=seq, cursor=f"1:{seq}", event=TextDelta(text=text))
        for seq, text in enumerate(["half of a wor", "d, ", KEY[:9], KEY[9:12]], 1)
    ]
    assert released(redactor, [first, second]) == []
    assert released(redactor, [key], now=1_000_000) == []
    assert released(redactor, [more], now=1_000_001) == [first, second]
    assert redactor.since == key.t


def test_a_folded_text_of_many_pieces_is_held_until_its_window_is_full() -> None:
    redactor = Redactor(RedactionRules(window_bytes=1 << 20, window_micros=EVER), SALT)
    step = tokens(1, *["a"] * 70_000)
    assert redactor.feed([step]) == []
    assert redactor.held_items == 140_000
    assert redactor.finish() == [step]


def test_steps_that_left_are_freed_without_the_garbage_collector() -> None:
    redactor = Redactor(RedactionRules(), SALT)
    lines = stream(["it is ", KEY[:9], KEY[9:], " so"])
    redactor.feed(steps_of(lines.lines))  # what is made once
    gc.collect()
    gc.disable()
    try:
        for some in (lines.lines, [tokens(1, *"abc"), tokens(10, KEY)]):
            redactor.feed(steps_of(some))
            redactor.finish()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_binary_frames_are_searched_too() -> None:
    data = b"\xff\xfe " + KEY.encode() + b"\xff"
    lines: list[Line] = [
        frame_at(1, 1, "up", "receive", "smooth", data),
        frame_at(2, 1, "up", "receive", "pando", Parts("rpc", b"id", (b"\xff", KEY.encode()))),
        frame_at(3, 1, "up", "receive", "pando", Parts("rpc", b"id", (b"\xff", b"nothing"))),
        frame_at(4, 1, "up", "receive", "pod", Oversize(5, 4)),
    ]
    out = list(lines_of(released(Redactor(RedactionRules(), SALT), lines)))
    assert [line.redacted for line in out] == [True, True, False, False]
    assert out[2:] == lines[2:]
    assert [getattr(line, "base64", None) or getattr(line, "parts", None) for line in out[:2]] == [None, None]


def test_the_request_id_of_a_client_may_be_a_secret() -> None:
    line = EventLine(seq=1, t=1, cursor="1:1", event=TextDelta(text="x"), origin=Origin(link="c", request=KEY))
    redactor = Redactor(RedactionRules(), SALT)
    (out,) = all_released(redactor, [line])
    assert isinstance(out, EventLine)
    assert out.origin == Origin(link="c", request=MARK("api_key", KEY))


def test_the_call_of_streamed_arguments_and_outputs_may_be_named_by_a_secret() -> None:
    events: list[Event] = [
        ToolCallArguments(json='{"a', call=KEY, name=KEY),
        ToolCallArguments(json='":1}', call=KEY, name=KEY),
        ToolCallArguments(json='{"a":1}', call=KEY, name=KEY, done=True),
        ToolOutputDelta(text="x", call=KEY),
    ]
    lines = [EventLine(seq=seq, t=seq, cursor=f"1:{seq}", event=event) for seq, event in enumerate(events, 1)]
    out = list(lines_of(all_released(Redactor(RedactionRules(), SALT), lines)))
    assert KEY not in raw(out).decode()
    marks = [(getattr(event, "call", ""), getattr(event, "name", None)) for event in map(attrgetter("event"), out)]
    assert marks == [(MARK("api_key", KEY), MARK("api_key", KEY))] * 3 + [(MARK("api_key", KEY), None)]
    assert [getattr(event, "json", "") for event in map(attrgetter("event"), out)] == ['{"a', '":1}', '{"a":1}', ""]


def test_a_secret_request_id_of_a_folded_text_is_found_at_each_of_its_events() -> None:
    found: list[Finding] = []
    step = tokens(1, "a ", "b ")
    step.events[0] = structs.replace(step.events[0], origin=Origin(link="c", request=KEY))
    assert KEY not in raw(all_released(Redactor(RedactionRules(), SALT, found.append), [step])).decode()
    assert [(one.seq, one.place) for one in found] == [(3, "Origin.request"), (4, "Origin.request")]


AWS_KEY = "AKIAQ3EGRIUYQW5ZT7BN"  # made up; it is none with a letter beside it


@pytest.mark.parametrize("texts", [("hello", AWS_KEY), (AWS_KEY, "hello"), (AWS_KEY, AWS_KEY)])
@pytest.mark.parametrize("together", [True, False])
def test_a_secret_that_is_the_whole_text_of_a_frame_is_found_beside_other_texts(
    texts: Sequence[str], together: bool
) -> None:
    frames = [json.dumps({"method": "notify", "params": {"message": text}}).encode() for text in texts]
    lines: list[Line] = [frame_at(seq, seq, "pod-1", "receive", "pod", frame) for seq, frame in enumerate(frames, 1)]
    redactor = Redactor(RedactionRules(), SALT)
    out = released(redactor, lines) if together else [left for line in lines for left in released(redactor, [line])]
    assert [line.redacted for line in lines_of(out)] == [text == AWS_KEY for text in texts]


@pytest.mark.parametrize("line", ['password: "swordfish1"', 'api_key = "swordfish1"', 'curl -u "bob:swordfish1" x'])
def test_a_secret_in_a_frame_that_is_no_json_is_found_by_the_name_before_its_quotes(line: str) -> None:
    (out,) = released(Redactor(RedactionRules(), SALT), [frame_at(1, 1, "pod-1", "receive", "pod", line.encode())])
    assert b"swordfish1" not in raw([out])


def test_a_number_whose_key_only_resembles_a_secret_key_is_kept() -> None:
    """An example is a pod's `context_tokens`: a text in its place would have a type that the dialect forbids."""
    history = HistorySnapshot(items=(), ext={"pod.context_tokens": Raw(b"812"), "pod.token": Raw(b'"abcdefgh"')})
    line = EventLine(seq=1, t=1, cursor="1:1", event=history)
    (out,) = released(Redactor(RedactionRules(), SALT), [line])
    assert isinstance(out, EventLine)
    assert isinstance(out.event, HistorySnapshot)
    assert out.event.ext is not None
    assert bytes(out.event.ext["pod.context_tokens"]) == b"812"
    assert b"abcdefgh" not in bytes(out.event.ext["pod.token"])


# -- alike frames of one step ----------------------------------------------------------------------------


RUN_AROUND = ('{"event":"text_delta","data":{"text":"', '"}}')


def alike(
    words: Sequence[str], around: Sequence[str] = RUN_AROUND, *, seq: int = 1, dialect: str = "pod"
) -> list[FrameLine]:
    """Return one frame for each word, of one step."""
    link = "up" if dialect == "pod" else "c1"
    return [
        FrameLine(seq=number, t=seq, link=link, dir="receive", dialect=dialect, text=word.join(around))
        for number, word in enumerate(words, seq)
    ]


def known(redactor: Redactor) -> Redactor:
    """Feed the redactor enough of these frames that it knows their shape."""
    released(redactor, alike(["x"] * 40, seq=0))
    return redactor


@pytest.mark.parametrize(
    "words",
    [
        ["a ", KEY, " b"],
        ["a ", KEY[:9], KEY[9:], " b"],
        ["a ", f'","password":"{KEY}', " b"],  # a word with a quote in it is no word
        ["a\\", f"{KEY}\\", " b"],  # nor is one whose quote does not end it
        ["a ", f'\\"{KEY}\\"', " b"],
        ["a ", f"\\u0041 {KEY[:4]}\\u{ord(KEY[4]):04x}{KEY[5:]}", " b"],
        ["a ", f"\\\\ {KEY}", " b"],
        ["a ", f"\\ud83d {KEY}", " b"],
        ["a ", f"\x00{KEY}", " b"],
    ],
)
def test_no_secret_remains_in_alike_frames_with_any_words(words: list[str]) -> None:
    for redactor in (Redactor(RedactionRules(), SALT), known(Redactor(RedactionRules(), SALT))):
        out = list(lines_of(all_released(redactor, alike(words * 5))))
        assert [line.seq for line in out] == list(range(1, 1 + 5 * len(words)))
        texts = "".join(line.text or "" for line in out if isinstance(line, FrameLine))
        assert KEY[5:] not in texts
        assert not any(KEY[at : at + 12] in texts for at in range(len(KEY) - 11))


def test_frames_with_credentials_are_emptied_one_by_one() -> None:
    around = '{"action":"ping","token":"', '"}'
    for some in (RedactionRules(), OFF):
        frames = alike(["hunter22", "swordfish"] * 9, around, dialect="smooth")
        out = list(lines_of(released(Redactor(some, SALT), frames)))
        assert [line.redacted for line in out if isinstance(line, FrameLine)] == [True] * 18
        assert not any(line.text for line in out if isinstance(line, FrameLine))


def test_a_secret_around_the_words_of_alike_frames_is_removed_from_each_frame() -> None:
    redactor = Redactor(RedactionRules(), SALT)
    seen = '{"event":"x","data":{"note":"none","text":"', '"}}'
    around = f'{{"event":"x","data":{{"note":"it is {KEY}","text":"', '"}}'
    words = [f"w{at}" for at in range(30)]
    out = []
    for seq, some in ((1, seen), (31, seen), (61, around)):
        out = list(lines_of(released(redactor, alike(words, some, seq=seq))))
    assert [line.seq for line in out] == list(range(61, 91))
    assert KEY not in raw(out).decode()


# -- streams that no gateway wrote -----------------------------------------------------------------------


def flowing(redactor: Redactor) -> int:
    """Feed enough such streams that the redactor knows them; return the seq of the next line."""
    for at in range(4):
        stored = tokens(1 + at * 40, *(f"w{n} " for n in range(20)))
        assert released(redactor, [stored], now=60_000_000) == [stored], "and leave as they are"
    return 161


def test_text_of_streams_is_remembered_when_a_frame_continues_it() -> None:
    redactor = Redactor(RedactionRules(), SALT)
    seq = flowing(redactor)
    released(redactor, [tokens(seq, "the key", " is ", KEY[:3])], now=60_000_000)  # which tells nothing yet
    frame = FrameLine(
        seq=seq + 6,
        t=seq * 1000,
        link="up",
        dir="receive",
        dialect="pod",
        text=json.dumps({"event": "text_delta", "data": {"text": KEY[3:]}}),
    )
    (out,) = released(redactor, [frame], now=60_000_000)
    assert isinstance(out, FrameLine)
    assert (out.text, out.redacted) == (None, True)


def test_new_values_around_the_text_of_a_stream_are_searched() -> None:
    redactor = Redactor(RedactionRules(), SALT)
    seq = flowing(redactor)
    for part in (f'{{"event":"text_delta","note":"{KEY}","data":{{"text":', '{"password":"swordfish","data":{"text":'):
        stored = tokens(seq, *(f"w{n} " for n in range(20)), around=(part, "}}"))
        for _ in range(3):
            out = list(lines_of(released(redactor, [stored], now=60_000_000)))
            assert len(out) == 40
            inside = raw(out).decode()
            assert KEY not in inside
            assert "swordfish" not in inside


def test_configured_paths_are_applied_to_the_frames_of_every_stream() -> None:
    redactor = Redactor(rules({}, ["$.ssn"], window_bytes=65_536, window_micros=2_000_000), SALT)
    seq = flowing(redactor)
    stored = tokens(seq, *(f"w{n} " for n in range(20)), '{"ssn": "078-05-1120"}')
    out = list(lines_of(all_released(redactor, [stored], now=60_000_000)))
    assert "078-05-1120" not in "".join(line.text or "" for line in out if isinstance(line, FrameLine))


def test_tokens_are_removed_from_the_frames_and_events_of_a_stream_in_any_configuration() -> None:
    words = [f"w{n} " for n in range(20)]
    around = ('{"event":"text_delta","url":"wss://x/ws?token=swordfish12345","data":{"text":', "}}")
    for stored in (tokens(1, *words, around=around), tokens(1, *words, "wss://x/ws?token=swordfish12345")):
        for some in (RedactionRules(), OFF):
            redactor = Redactor(some, SALT)
            out = list(lines_of(all_released(redactor, [stored], now=60_000_000)))
            assert [line.seq for line in out] == list(range(1, 1 + stored.count))
            assert b"swordfish" not in raw(out)
