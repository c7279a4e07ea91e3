"""Streamed secrets: none is written, and the written deltas together are the redacted text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain

import pytest
from msgspec import structs

from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Line
from dragoman.gateway.recording.redaction import redactor as redactor_module
from dragoman.gateway.recording.redaction.held_text import BEHIND
from dragoman.gateway.recording.redaction.redactor import COUNTS_MAX, FindingCounts, Redactor
from dragoman.gateway.recording.redaction.rules import RedactionRules, rules
from dragoman.gateway.recording.redaction.shapes import ALWAYS
from dragoman.gateway.recording.redaction.spans import placeholders
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import AnswerOtp, SubmitInput
from dragoman.mappings.canonical.events import (
    ReasoningDelta,
    ReasoningStarted,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Text
from tests.gateway.recording.lines import (
    Item,
    count_of,
    in_one_step,
    in_streams,
    items_of,
    lines_of,
    raw,
    released,
)
from tests.gateway.recording.redaction.corpus import PRIVATE, SAID, SHAPES, escaped

SALT = b"salt"
RUN = 64  # lines that come at one time
KEY = SHAPES["api_key"]
MARK = placeholders(SALT)
OFF = RedactionRules(detectors=ALWAYS)
"""The rules without redaction: they remove only what no recording ever holds."""


@pytest.fixture(autouse=True, params=["", "runs", "streams"], ids=["one by one", "in runs", "in streams"])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lines, "together", request.param)


class Lines:
    """Lines as a recorder makes them, alone or `together` in one step."""

    together = ""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.t = 0

    def event(self, event: Event, wait: int = 1000) -> None:
        self.t += wait
        count = len(self.lines)
        if self.lines and isinstance(last := self.lines[-1], FrameLine) and last.dir == "receive":
            self.lines[-1] = structs.replace(last, t=self.t)  # the frame and what it meant are one step
        self.lines.append(EventLine(seq=count, t=self.t, cursor=f"1:{count}", event=event))

    def command(self, command: Command) -> None:
        count = len(self.lines)
        self.lines.append(CommandLine(seq=count, t=self.t, cursor=f"1:{count}", command=command, link="c1"))

    def frame(self, value: object, link: str = "up", dialect: str = "pod", text: str = "") -> None:
        text = text or json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        direction = "receive" if link == "up" else "send"
        self.lines.append(
            FrameLine(seq=len(self.lines), t=self.t, link=link, dir=direction, dialect=dialect, text=text)  # type: ignore[arg-type]  # one of two
        )

    def redacted(self, redactor: Redactor | None = None, *, at_once: int = 7) -> list[Line]:
        redactor = redactor or Redactor(RedactionRules(), SALT)
        out: list[Item] = []
        many = RUN if self.together else at_once
        fed: list[list[Line]] = [self.lines[at : at + many] for at in range(0, len(self.lines), many)]
        stored: list[Sequence[Item]] = [*fed]
        if self.together == "runs":
            stored = [in_one_step(some) for some in fed]
        if self.together == "streams":
            stored, seq, position = [], self.lines[0].seq, 0
            for some in fed:
                stored.append(in_streams(some, seq, position))
                seq = stored[-1][-1].seq + count_of(stored[-1][-1])
                position += len(some)
        self.lines = list(lines_of(chain.from_iterable(stored)))
        for piece in stored:
            out += released(redactor, piece)
        out += items_of(redactor.finish())
        whole = list(lines_of(out))
        assert [line.seq for line in whole] == [line.seq for line in self.lines]
        return whole


def said(lines: Sequence[Line], kind: type = TextDelta, field: str = "text") -> str:
    return "".join(
        getattr(line.event, field) for line in lines if isinstance(line, EventLine) and type(line.event) is kind
    )


def remains(lines: Sequence[Line], secret: str) -> bool:
    """Return True if any eight letters of a secret are in the file, in frames or events, split or whole."""
    inside = raw(lines).decode()
    together = said(lines) + said(lines, ToolCallArguments, "json") + "".join(framed(lines))
    if PRIVATE in secret:
        secret = "".join(secret.split("-----")[2:3])  # what stands around it is known to everybody
    pieces = {secret[at : at + 8] for at in range(len(secret) - 7)}
    return any(piece in inside or piece in together for piece in pieces)


def framed(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the text of the deltas in these frames, one wire after the other."""
    for link in ("up", "c1"):
        for line in lines:
            if isinstance(line, FrameLine) and line.link == link and line.text and '":[' not in line.text:
                value = json.loads(line.text)
                yield value.get("token") or value.get("data", {}).get("text") or value.get("data", {}).get("json") or ""


def stream(pieces: Sequence[str]) -> Lines:
    """Yield a pod's text as a smooth client receives it, with its end."""
    lines = Lines()
    for piece in pieces:
        lines.frame({"event": "text_delta", "data": {"text": piece}})
        lines.event(TextDelta(text=piece))
        data = {"requestId": "r", "token": piece}
        lines.frame({"type": "stream_token", **data, "data": data, "timestamp": lines.t // 100_000}, "c1", "smooth")
    text = "".join(pieces)
    lines.frame({"event": "text_done", "data": {"text": text}})
    lines.event(TextDone(text=text))
    lines.event(TurnEnded(end="completed", text=text))
    return lines


def splits(text: str) -> Iterator[list[str]]:
    """Yield the text split in two at every position, in single letters, and in threes. Lines `together` are split at
    every fifth position, because the position matters to the text alone.
    """
    for at in range(1, len(text), 5 if Lines.together else 1):
        yield [text[:at], text[at:]]
    yield list(text)
    yield [text[at : at + 3] for at in range(0, len(text), 3)]


# -- text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "before", "secret", "behind"), SAID)
def test_a_secret_split_at_any_place_is_removed(kind: str, before: str, secret: str, behind: str) -> None:
    text = before + secret + behind
    clean = before + MARK(kind, secret) + behind
    for pieces in splits(text):
        out = stream(pieces).redacted()
        assert said(out) == clean
        assert said(out, TextDone) == said(out, TurnEnded) == clean
        assert not remains(out, secret)


def test_lines_keep_their_order_and_only_those_with_secrets_are_changed() -> None:
    lines = stream(["it ", "is ", KEY[:9], KEY[9:], " so"])
    out = lines.redacted()
    changed = [new.redacted for new in out]
    assert changed == [new != old for new, old in zip(out, lines.lines, strict=True)]
    emptied = {
        link: [f.text is None for f in out if isinstance(f, FrameLine) and f.link == link] for link in ("up", "c1")
    }
    assert emptied == {"up": [False, False, True, True, False, True], "c1": [False, False, True, True, False]}


def test_a_frame_with_a_secret_is_emptied_and_counted_once_for_each_kind() -> None:
    redactor = Redactor(RedactionRules(), SALT)
    lines = Lines()
    lines.frame({"event": "x", "data": {"text": f"it is {KEY} and {KEY} and {SHAPES['npm_token']} so"}})
    lines.frame({"event": "x", "data": {"text": "nothing"}})
    out = lines.redacted(redactor)
    assert [(frame.text is None, frame.redacted) for frame in out if isinstance(frame, FrameLine)] == [
        (True, True),
        (False, False),
    ]
    assert [(entry.kind, entry.place, entry.count) for entry in redactor.ledger.entries()] == [
        ("api_key", "frame.pod.receive", 1),
        ("npm_token", "frame.pod.receive", 1),
    ]


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta, ToolOutputDelta])
def test_every_streamed_text_is_joined(kind: type) -> None:
    lines = Lines()
    lines.event(ReasoningStarted())
    for letter in f"x {KEY} y":
        lines.event(kind(text=letter))
    lines.event(TurnEnded(end="completed"))
    assert said(lines.redacted(), kind) == f"x {MARK('api_key', KEY)} y"


def test_other_events_between_the_deltas_do_not_hide_a_secret() -> None:
    lines = Lines()
    for letter in KEY:
        lines.event(TextDelta(text=letter))
        lines.event(StatusChanged(status="running"))
    lines.event(TextDone(text=KEY))
    assert said(lines.redacted()) == MARK("api_key", KEY)


def test_texts_of_calls_that_run_at_one_time_are_kept_apart() -> None:
    lines = Lines()
    arguments = {call: json.dumps({"cmd": f"use {key}"}) for call, key in (("a", KEY), ("b", SHAPES["npm_token"]))}
    for at in range(max(map(len, arguments.values()))):
        for call, text in arguments.items():
            lines.frame({"event": "tool_call_args_delta", "data": {"id": call, "json": text[at : at + 1]}})
            lines.event(ToolCallArguments(call=call, json=text[at : at + 1]))
    for call, text in arguments.items():
        lines.event(ToolCallArguments(call=call, json=text, done=True))
    out = lines.redacted()
    assert not remains(out, KEY)
    assert not remains(out, SHAPES["npm_token"])


def test_results_of_tools_and_inputs_of_clients_are_redacted() -> None:
    lines = Lines()
    lines.command(SubmitInput(segments=(Text(text=f"use {KEY}"),)))
    lines.event(ToolCallStarted(name="shell", call="a"))
    lines.event(ToolCallFinished(call="a", name="shell", summary="read .env", output=f"OPENAI={KEY}\n"))
    out = lines.redacted()
    assert not remains(out, KEY)
    assert raw(out).count(MARK("api_key", KEY).encode()) == 2


# -- JSON in strings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "form"), [(secret, form) for secret in (KEY, 'p"ä/ß\\😀wort') for form in dict.fromkeys(escaped(secret))]
)
def test_arguments_split_within_escapes_and_surrogate_pairs_are_redacted(secret: str, form: str) -> None:
    arguments = '{"command": "run", "password": "' + form + '", "n": 1.0}'
    for pieces in splits(arguments):
        lines = Lines()
        for piece in pieces:
            lines.frame({"event": "tool_call_args_delta", "data": {"id": "a", "json": piece}})
            lines.event(ToolCallArguments(call="a", json=piece))
        lines.event(ToolCallArguments(call="a", json=arguments, done=True))
        out = lines.redacted()
        mark = MARK("api_key" if secret == KEY else "credential", secret)
        *deltas, done = [line.event for line in out if isinstance(line, EventLine)]
        assert "".join(getattr(event, "json", "") for event in deltas) == getattr(done, "json", "")
        assert json.loads(getattr(done, "json", "")) == {"command": "run", "password": mark, "n": 1.0}
        assert not remains(out, form)


# -- windows ---------------------------------------------------------------------------------------------


def test_a_secret_streamed_slower_than_the_window_shows_at_most_its_beginning() -> None:
    for at in range(1, len(KEY)):
        lines = Lines()
        lines.event(TextDelta(text="it is " + KEY[:at]))
        lines.event(TextDelta(text=KEY[at:] + " so"), wait=3_000_000)
        lines.event(TextDone(text="it is " + KEY + " so"))
        text = said(lines.redacted(at_once=1))
        assert text.startswith("it is "), at
        assert text.endswith(" so"), at
        assert text[6:].split("[", 1)[0] in ("", "s", "sk", "sk-"), at
        assert not remains(lines.redacted(at_once=1), KEY), at


def test_a_long_text_is_released_before_its_end_without_its_secrets() -> None:
    redactor = Redactor(RedactionRules(window_bytes=4096), SALT)
    lines = Lines()
    words = [f"word{at} " for at in range(4000)]
    for at in (500, 1000, 2777):
        words[at:at] = [*KEY, " "]
    for word in words:
        lines.event(TextDelta(text=word))
    out = list(lines_of(released(redactor, lines.lines)))
    assert len(lines.lines) * 4 // 5 < len(out) < len(lines.lines)
    out += lines_of(items_of(redactor.finish()))
    assert said(out) == "".join(words).replace(KEY, MARK("api_key", KEY))


def test_a_secret_over_many_windows_leaves_only_placeholders() -> None:
    dashes = "-" * 5
    key = f"{dashes}BEGIN {PRIVATE}{dashes}\n" + "Ab1/" * 4000 + f"\n{dashes}END {PRIVATE}{dashes}"
    lines = Lines()
    for at in range(0, len(key), 10):
        lines.event(TextDelta(text=key[at : at + 10]))
    lines.event(TextDelta(text="\nthat was it"))
    lines.event(TurnEnded(end="completed"))
    text = said(lines.redacted(Redactor(RedactionRules(window_bytes=2048), SALT)))
    assert "Ab1/" not in text
    assert text.endswith("]\nthat was it")
    assert text.count("[redacted:private_key:") == 1


def test_a_long_secret_streamed_slowly_shows_no_part_of_its_body() -> None:
    dashes = "-" * 5
    body = "".join(f"{at:04d}/Ab1" for at in range(60))
    key = f"{dashes}BEGIN {PRIVATE}{dashes}\n{body}\n{dashes}END {PRIVATE}{dashes}"
    for form, shown in zip(escaped(key), escaped(body), strict=True):
        arguments = '{"key": "' + form + '"}'
        lines = Lines()
        for at in range(0, len(arguments), 50):
            lines.event(ToolCallArguments(call="a", json=arguments[at : at + 50]), wait=1_900_000)
        lines.event(TurnEnded(end="completed"))
        text = said(lines.redacted(at_once=1), ToolCallArguments, "json")
        assert not any(shown[at : at + 24] in text for at in range(len(shown) - 23)), form[:80]
        assert text.endswith('"}')


def test_a_key_streamed_just_before_its_value_is_remembered() -> None:
    lines = Lines()
    lines.event(TextDelta(text="the file says DB_PASSWORD"))
    lines.event(TextDelta(text="='correct horse'" + "." * BEHIND), wait=5_000_000)
    lines.event(TurnEnded(end="completed"))
    assert said(lines.redacted(at_once=1)).startswith("the file says DB_PASSWORD='[redacted:credential:")


@pytest.mark.parametrize(("name", "limit", "size"), [("ENTRIES_MAX", 1_000, 1), ("WEIGHT_MAX", 1_000_000, 1_000)])
def test_held_text_is_bounded(name: str, limit: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redactor_module, name, limit)
    redactor = Redactor(RedactionRules(window_micros=10**12), SALT)
    lines = Lines()
    lines.event(TextDelta(text="it begins"))
    for _ in range(2_500):
        lines.frame({"event": "x" * size})
    out = released(redactor, lines.lines)
    assert len(lines.lines) - len(out) < 1_000 + RUN


# -- without redaction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [RedactionRules(), OFF], ids=["on", "off"])
@pytest.mark.parametrize(
    "frame",
    [
        '{"action":"create_conversation_session","requestId":"r","token":"%s"}',
        '{"action":"send_message","requestId":"r","message":"hi","token":"%s"}',
        '{"action":"create_conversation_session","authContext":{"userId":"u","signature":"%s","timestamp":1}}',
        '{"action":"verify_otp","requestId":"r","sessionId":"s","code":"%s"}',
        '{"method":"run","params":{"input":[{"kind":"text","content":"code %s"}]}}',
        '{"url":"ws://host/ws?token=%s"}',
    ],
)
def test_tokens_and_codes_in_frames_are_never_recorded(on: RedactionRules, frame: str) -> None:
    lines = Lines()
    lines.frame(None, "c1", "smooth", frame % "4711081")
    (out,) = lines.redacted(Redactor(on, SALT))
    assert b"4711081" not in raw([out])
    assert out.redacted


@pytest.mark.parametrize("on", [RedactionRules(), OFF], ids=["on", "off"])
def test_one_time_codes_in_commands_are_never_recorded(on: RedactionRules) -> None:
    lines = Lines()
    lines.command(AnswerOtp(code="4711081"))
    lines.command(SubmitInput(segments=(Text(text="code 4711081"),)))
    out = lines.redacted(Redactor(on, SALT))
    assert b"4711081" not in raw(out)
    assert all(line.redacted for line in out)


def test_a_token_in_a_streamed_url_is_never_recorded() -> None:
    lines = stream(["see wss://x/ws?tok", "en=sword", "fish12345 and more"])
    assert not remains(lines.redacted(Redactor(OFF, SALT)), "swordfish12345")


def test_without_redaction_all_other_values_are_not_changed() -> None:
    lines = stream(["my key is ", KEY, " and code 12345 is no code"])
    redactor = Redactor(OFF, SALT)
    assert released(redactor, lines.lines) == lines.lines
    assert redactor.since is None


def test_a_large_text_is_joined_with_the_text_around_it() -> None:
    large = "some prose, and more of it. " * 1000
    for pieces in (
        [KEY[:9], KEY[9:] + " " + large, "x"],
        ["x", large + KEY[:9], KEY[9:] + " x"],
        ["x", large + KEY + " " + large, "x"],
    ):
        out = stream(pieces).redacted()
        assert said(out) == "".join(pieces).replace(KEY, MARK("api_key", KEY))
        assert not remains(out, KEY)


# -- strange things -------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [100, 900, 980, 1500, 5000])
def test_json_of_any_depth_is_redacted(depth: int) -> None:
    deep = '{"a":[' * (depth // 2) + f'"\\n{KEY}"' + "]}" * (depth // 2)
    lines = Lines()
    lines.frame(None, text=deep)
    lines.event(ToolCallFinished(call="a", output=deep))
    lines.event(ToolCallArguments(call="a", json=deep, done=True))
    assert not remains(lines.redacted(), KEY)


# -- the user's own ---------------------------------------------------------------------------------------


def test_configured_patterns_and_paths_apply_to_streams_and_frames() -> None:
    own = rules({"customer": "CUST-[0-9]{8}"}, ["$.arguments.ssn"], window_bytes=65536, window_micros=2_000_000)
    arguments = json.dumps({"who": "CUST-12345678", "ssn": {"a": "on the street"}, "city": "Bonn"})
    for pieces in splits(arguments):
        lines = Lines()
        for piece in pieces:
            lines.frame({"event": "tool_call_args_delta", "data": {"id": "a", "json": piece}})
            lines.event(ToolCallArguments(call="a", json=piece))
        lines.frame({"event": "tool_call_done", "data": {"id": "a", "arguments": arguments}})
        lines.event(ToolCallArguments(call="a", json=arguments, done=True))
        out = lines.redacted(Redactor(own, SALT))
        assert not remains(out, "CUST-12345678")
        assert not remains(out, "on the street")
        *deltas, done = [line.event for line in out if isinstance(line, EventLine)]
        assert "".join(getattr(event, "json", "") for event in deltas) == getattr(done, "json", "")
        assert json.loads(getattr(done, "json", ""))["city"] == "Bonn"


def test_configured_patterns_apply_across_windows_in_events_and_frames() -> None:
    own = rules({"customer": "CUST-[0-9]{8}"}, [], window_bytes=65536, window_micros=2_000_000)
    secret = "CUST-12345678"
    for at in range(1, len(secret)):
        lines = Lines()
        for piece in ("some words, ", secret[:at], secret[at:], " and more words"):
            lines.frame({"event": "text_delta", "data": {"text": piece}})
            lines.event(TextDelta(text=piece), wait=1_500_000)
            data = {"requestId": "r", "token": piece}
            lines.frame({"type": "stream_token", **data, "data": data, "timestamp": lines.t // 100_000}, "c1", "smooth")
        lines.event(TextDone(text=f"some words, {secret} and more words"))
        out = lines.redacted(Redactor(own, SALT), at_once=3)  # a step at a time
        assert said(out) == f"some words, {MARK('customer', secret)} and more words", at
        assert not remains(out, secret), at
        for link in ("up", "c1"):
            changed = [line.redacted for line in out if isinstance(line, FrameLine) and line.link == link]
            assert changed == [False, True, True, False], at


# -- the ledger ------------------------------------------------------------------------------------------


def test_the_ledger_has_kinds_and_places_and_counts_and_no_value() -> None:
    redactor = Redactor(RedactionRules(), SALT)
    stream(["it is ", KEY[:9], KEY[9:]]).redacted(redactor)
    told = {(entry.kind, entry.place): entry.count for entry in redactor.ledger.entries()}
    assert told == {
        ("api_key", "text_delta.text"): 1,
        ("api_key", "text_done.text"): 1,
        ("api_key", "turn_ended.text"): 1,
        ("api_key", "frame.pod.receive"): 3,
        ("api_key", "frame.smooth.send"): 2,
    }
    assert redactor.ledger.total == 8
    assert KEY[3:9] not in str(redactor.ledger.entries())


def test_the_places_in_the_ledger_are_bounded() -> None:
    ledger = FindingCounts(None)
    for number in range(2 * COUNTS_MAX):
        ledger.note("api_key", f"frame.{number}.send", 0)  # a recording may name any dialect
    assert ledger.total == 2 * COUNTS_MAX
    assert len(ledger.entries()) == COUNTS_MAX + 1


def test_equal_secrets_are_equal_in_one_recording_and_not_in_another() -> None:
    one, other = (said(stream([f"{KEY} {KEY}"]).redacted(Redactor(RedactionRules(), salt))) for salt in (b"1", b"2"))
    assert len(set(one.split())) == len(set(other.split())) == 1
    assert one != other


def test_a_placeholder_is_not_redacted_again() -> None:
    out = stream([*(before + secret + behind for _, before, secret, behind in SAID)]).redacted()
    again = Lines()
    again.lines = list(out)
    assert again.redacted(Redactor(RedactionRules(), b"another")) == out


def test_a_frame_with_secret_names_as_keys_is_searched_each_time() -> None:
    lines = Lines()
    for at in range(40):
        lines.frame({"event": "x", "data": {"password": f"swordfish{at}"}})
        lines.frame({"action": "ping", "token": f"tuna{at}"}, "c1", "smooth")
        lines.frame({"method": "set_config", "params": {"key": "api_key", "value": f"salmon{at}"}}, "c2", "codewhale")
    inside = raw(lines.redacted()).decode()
    assert not any(fish in inside for fish in ("swordfish", "tuna", "salmon"))


def test_a_secret_in_every_frame_of_a_stream_is_removed_from_each() -> None:
    lines = Lines()
    for at in range(60):
        data = {"requestId": KEY, "token": f"w{at}"}
        lines.frame({"type": "stream_token", **data, "data": data}, "c1", "smooth")
        lines.frame({"event": "text_delta", "data": {"text": f"w{at}", "note": f"it is {KEY}"}})
    assert not remains(lines.redacted(), KEY)


@pytest.mark.parametrize("rest", ["x" * 9000, f"a key: {KEY}"], ids=["large", "secret"])
def test_a_text_of_a_noncharacter_is_redacted_like_any_other(rest: str) -> None:
    lines = Lines()
    for text in ("\ufdd0", rest):
        lines.frame({"event": "text_delta", "data": {"text": text}})
    first, second = lines.redacted()
    assert "\ufdd0".encode() in raw([first])
    assert KEY.encode() not in raw([second])
