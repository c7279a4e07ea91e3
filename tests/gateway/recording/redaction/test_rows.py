from __future__ import annotations

import json

from msgspec import Raw

from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import RedactionRules
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.values import KeyedText, find_in_rows, gather_texts, replace_texts
from dragoman.mappings.canonical.events import Reply
from tests.gateway.recording.lines import released
from tests.gateway.recording.redaction.corpus import SHAPES

KEY = SHAPES["slack_token"]
FINDER = Finder(BUILT_IN)


def result(pieces: list[str]) -> dict[str, object]:
    """Return codewhale's result, which repeats the streamed text (docs/dialects/codewhale.md, section 5)."""
    return {"ok": True, "n": 1, "events": [{"type": "response_delta", "delta": piece} for piece in pieces]}


def mark(kind: str, secret: str) -> str:
    assert secret == KEY
    return f"<{kind}>"


def test_a_secret_split_over_equal_fields_is_removed_from_its_pieces() -> None:
    for at in range(1, len(KEY)):
        value = result(["it is ", KEY[:at], KEY[at:], " so"])
        texts: list[KeyedText] = []
        gather_texts(value, "", {}, texts)
        changed, kinds = find_in_rows(FINDER, texts, mark)
        assert kinds == ["slack_token"]
        assert replace_texts(value, [], changed) == result(["it is ", "<slack_token>", "", " so"])


def test_repeated_text_is_not_joined() -> None:
    texts = [("token", "x" + KEY[:20]), ("token", "x" + KEY[:20])]
    assert find_in_rows(FINDER, texts, mark) == ({}, [])


def test_no_result_keeps_a_secret_that_it_repeats_piece_by_piece() -> None:
    for at in range(1, len(KEY)):
        value = result(["it is ", KEY[:at], KEY[at:], " so"])
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
        assert KEY not in "".join(event["delta"] for event in told["events"])
        assert line.redacted
