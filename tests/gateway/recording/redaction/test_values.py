from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.gateway.recording.redaction import finder as finder_module
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.paths import JsonPaths, json_path
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import RedactionRules, pattern
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.values import (
    KeyedText,
    ValueRedactor,
    find_in_rows,
    gather_texts,
    replace_texts,
)
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import AnswerOtp, OpenSession, SetConfig
from dragoman.mappings.canonical.events import HistorySnapshot, InteractionRequired, Reply, TextDone, ToolCallArguments
from dragoman.mappings.canonical.values import Message, Paste, ToolCall
from tests.gateway.recording.lines import released
from tests.gateway.recording.redaction.corpus import SHAPES
from tests.samples import samples

KEY = SHAPES["github_token"]
PLAIN = ValueRedactor(Finder(BUILT_IN), JsonPaths(), lambda kind, _secret: f"<{kind}>", lambda *_told: None)


def poisoned(value: Any) -> Any:
    """Return a value in which every free text and every JSON contains the key."""
    kinds = {f.name: f for f in msgspec.structs.fields(type(value))}
    changed: dict[str, Any] = {}
    for name in kinds:
        old = getattr(value, name)
        if isinstance(old, Raw):
            changed[name] = Raw(json.dumps({"a": [f"x {KEY}"]}).encode())
        elif isinstance(old, str) and old == "text":
            changed[name] = f"x {KEY} y"
        elif isinstance(old, dict):
            changed[name] = {"pod.field": Raw(json.dumps(f"x {KEY}").encode())}
        elif isinstance(old, tuple):
            changed[name] = tuple(f"x {KEY}" if isinstance(item, str) else poisoned(item) for item in old)
        elif isinstance(old, msgspec.Struct):
            changed[name] = poisoned(old)
    return structs.replace(value, **changed)


VALUES = [*samples(Event), *samples(Command)]
FULL = VALUES[1::2]


def test_no_text_of_any_event_or_command_keeps_a_secret() -> None:
    for value in VALUES:
        clean = PLAIN.redact(poisoned(value))
        assert KEY.encode() not in msgspec.json.encode(clean)
        assert msgspec.json.decode(msgspec.json.encode(clean), type=type(value)) == clean


def test_a_secret_beside_a_number_out_of_range_is_removed() -> None:
    clean = PLAIN.redact(Reply(request="r", result=Raw(f'{{"n":1e400,"a":["x {KEY}","y"]}}'.encode())))
    assert isinstance(clean.result, Raw)
    assert b"1e400" in bytes(clean.result)
    assert KEY.encode() not in bytes(clean.result)


def test_a_value_without_secrets_is_the_same_value() -> None:
    for value in VALUES:
        if isinstance(value, AnswerOtp):
            assert PLAIN.redact(value).code == "<otp>"
        else:
            assert PLAIN.redact(value) is value


def test_a_setting_is_a_secret_by_its_key() -> None:
    assert PLAIN.redact(SetConfig(key="providers.x.api_key", value="z")).value == "<credential>"
    assert PLAIN.redact(SetConfig(key="max_tokens", value="100")).value == "100"


def test_a_value_in_ext_is_a_secret_by_its_name() -> None:
    opened = PLAIN.redact(OpenSession(ext={"smooth.token": Raw(b'"z"'), "smooth.authContext": Raw(b'{"a":1}')}))
    assert opened.ext == {"smooth.token": Raw(b'"<credential>"'), "smooth.authContext": Raw(b'"<credential>"')}


def test_history_is_redacted_item_by_item() -> None:
    items = (
        Message(role="user", text=f"use {KEY}", segments=(Paste(text=f"use {KEY}", id=1, chars=1, lines=1),)),
        ToolCall(call="a", name="x", arguments=json.dumps({"env": {"TOKEN": KEY}})),
    )
    clean = PLAIN.redact(HistorySnapshot(items=items))
    assert [type(item) for item in clean.items] == [Message, ToolCall]
    assert b"<github_token>" in msgspec.json.encode(clean)
    assert KEY.encode() not in msgspec.json.encode(clean)


def test_a_path_s_first_step_is_the_field_of_the_event() -> None:
    paths = JsonPaths(map(json_path, ["$.user_email", "$.arguments.ssn", "$.spec.secret", "$.metadata"]))
    told: list[tuple[str, str]] = []
    values = ValueRedactor(Finder(BUILT_IN), paths, lambda kind, _: f"<{kind}>", lambda *note: told.append(note))
    opened = values.redact(OpenSession(user_email="a@b.c", title="a@b.c", metadata=Raw(b'{"x":1}')))
    assert (opened.user_email, opened.title, opened.metadata) == ("<path>", "a@b.c", Raw(b'"<path>"'))
    call = values.redact(ToolCallArguments(json='{"ssn": 12, "n": 1}', done=True))
    assert call.json == '{"ssn": "<path>", "n": 1}'
    asked = values.redact(InteractionRequired(question="q", kind="k", spec=Raw(b'{"secret":["a"]}'), reason="r"))
    assert asked.spec == Raw(b'{"secret":"<path>"}')
    assert told == [
        ("path", "open_session.user_email"),
        ("path", "open_session.metadata"),
        ("path", "tool_call_arguments.json"),
        ("path", "interaction_required.spec"),
    ]


def test_json_stays_json_when_a_pattern_takes_its_quotes() -> None:
    own = ValueRedactor(
        Finder([pattern("odd", '"[a-z]{3}"')]), JsonPaths(), lambda kind, _secret: f"<{kind}>", lambda *_told: None
    )
    reply = own.redact(Reply(request="r", result=Raw(b'{"a": "abc", "b": "\\"abc\\""}')))
    assert json.loads(bytes(reply.result)) == {"a": "abc", "b": "<odd>"}  # type: ignore[arg-type]  # it is set


def test_redaction_does_not_change_protocol_keywords() -> None:
    own = ValueRedactor(Finder([pattern("odd", "text_done|text")]), JsonPaths(), lambda *_: "<odd>", lambda *_: None)
    assert msgspec.json.encode(own.redact(TextDone(text="the text"))) == b'{"type":"text_done","text":"the <odd>"}'


def test_every_event_and_command_with_a_text_has_a_secret_before_its_redaction() -> None:
    clean = {type(v).__name__ for v in map(poisoned, FULL) if KEY.encode() not in msgspec.json.encode(v)}
    assert clean == set()


def test_json_that_is_removed_completely_becomes_one_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder_module, "FINDS_MAX", 2)
    values = ValueRedactor(Finder(BUILT_IN), JsonPaths(), lambda kind, _secret: f"<{kind}>", lambda *_told: None)
    text = '["://a:b@", "://c:d@", "://e:f@"]'
    assert values.redact(TextDone(text=text)) == TextDone(text='"<unsearched>"')


# -- secrets split over equal fields ---------------------------------------------------------------


SLACK_KEY = SHAPES["slack_token"]
FINDER = Finder(BUILT_IN)


def result(pieces: list[str]) -> dict[str, object]:
    """Return codewhale's result, which repeats the streamed text (docs/dialects/codewhale.md, section 5)."""
    return {"ok": True, "n": 1, "events": [{"type": "response_delta", "delta": piece} for piece in pieces]}


def mark(kind: str, secret: str) -> str:
    assert secret == SLACK_KEY
    return f"<{kind}>"


def test_a_secret_split_over_equal_fields_is_removed_from_its_pieces() -> None:
    for at in range(1, len(SLACK_KEY)):
        value = result(["it is ", SLACK_KEY[:at], SLACK_KEY[at:], " so"])
        texts: list[KeyedText] = []
        gather_texts(value, "", {}, texts)
        changed, kinds = find_in_rows(FINDER, texts, mark)
        assert kinds == ["slack_token"]
        assert replace_texts(value, [], changed) == result(["it is ", "<slack_token>", "", " so"])


def test_repeated_text_is_not_joined() -> None:
    texts = [("token", "x" + SLACK_KEY[:20]), ("token", "x" + SLACK_KEY[:20])]
    assert find_in_rows(FINDER, texts, mark) == ({}, [])


def test_no_result_keeps_a_secret_that_it_repeats_piece_by_piece() -> None:
    for at in range(1, len(SLACK_KEY)):
        value = result(["it is ", SLACK_KEY[:at], SLACK_KEY[at:], " so"])
        lines: list[Line] = [
            FrameLine(seq=1, t=1, link="up", dir="receive", dialect="codewhale", text=json.dumps(value)),
            EventLine(seq=2, t=1, cursor="1:1", event=Reply(request="r", result=Raw(json.dumps(value).encode()))),
        ]
        redactor = Redactor(RedactionRules(), b"salt")
        frame, line = released(redactor, lines)
        assert isinstance(frame, FrameLine)
        assert (frame.text, frame.redacted) == (None, True)
        assert isinstance(line, EventLine)
        assert isinstance(line.event, Reply)
        told = json.loads(bytes(line.event.result))  # type: ignore[arg-type]  # it is set
        assert SLACK_KEY not in "".join(event["delta"] for event in told["events"])
        assert line.redacted
