"""Text without secrets is not changed: prose, ids, hashes, pictures, code, and whole conversations of real programs."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from pathlib import Path

import pytest

from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import RedactionRules
from dragoman.mappings.canonical.events import TextDelta, TextDone, ToolCallFinished
from tests.data_files import DATA
from tests.gateway.recording.lines import all_released
from tests.gateway.recording.redaction.corpus import PRIVATE

CAPTURES = DATA / "captures"

NOISE = hashlib.sha512(b"noise").digest() * 64

HARMLESS = {
    "prose": "The password must have eight letters; the token: a unit of text. Secrets are bearer instruments.",
    "advice": "Set `api_key` in your config (see https://example.com/docs#api-key), then run `make test`.",
    "schema": '{"type": "object", "properties": {"password": {"type": "string"}, "api_key": null}}',
    "counters": '{"max_tokens": 4096, "token_budget": 200000, "tokens_in": 12, "token_type": "bearer"}',
    "uuid": f"session {uuid.UUID(int=7 << 64 | 9)} and thread-{uuid.UUID(int=8 << 90 | 3)}",
    "hashes": f"{hashlib.sha1(NOISE).hexdigest()} {hashlib.sha256(NOISE).hexdigest()} fix: read the token only once",
    "base64 image": f"data:image/png;base64,{base64.b64encode(NOISE).decode()}",
    "base64 for URLs": base64.urlsafe_b64encode(NOISE).decode(),
    "hex dump": NOISE.hex(" "),
    "code": "password = getpass.getpass()\ntoken = os.environ['TOKEN']\nsecret = config.secret or load_secret(path)\n",
    "more code": 'api_key: str = ""\nif token == "": raise ValueError("no token")\nself.password = password',
    "shell": 'export API_KEY=$OPENAI_API_KEY; curl -H "Authorization: Bearer $TOKEN" https://example.com:8080/v1?p=2',
    "template": "password: {{ vault_password }}\napi_key: ${API_KEY}\nsecret: <your secret>\ntoken: %s",
    "addresses": "ssh://git@example.com/x, http://localhost:8080/a@b, tcp://127.0.0.1:57846, mailto:a@b.c",
    "class names": "sk-fading-circle sk-learn task-sk-list eyJ AKIA xoxo ghp_ npm_config_registry hf_transfer",
    "exit codes": "exit code 12345, error code 4711, code 200",
    "key without a body": "-" * 5 + f"BEGIN {PRIVATE}" + "-" * 5 + ". That is how it begins.",
    "regular expression": r"(?:sk-|AKIA)[A-Z0-9]{16,} and \\d+\\.\\w*",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_text_is_not_changed(name: str) -> None:
    text = HARMLESS[name]
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    deltas = [EventLine(seq=at, t=at, cursor="1:1", event=TextDelta(text=piece)) for at, piece in enumerate(pieces)]
    seq = len(deltas)
    inside = json.dumps({"output": json.dumps(text)})
    lines: list[Line] = [
        *deltas,
        EventLine(seq=seq, t=seq, cursor="1:1", event=TextDone(text=text)),
        EventLine(seq=seq + 1, t=seq, cursor="1:1", event=ToolCallFinished(call="a", output=inside)),
        FrameLine(seq=seq + 2, t=seq, link="up", dir="receive", dialect="pod", text=inside),
    ]
    redactor = Redactor(RedactionRules(), b"salt")
    assert all_released(redactor, lines) == lines


@pytest.mark.parametrize("path", sorted(CAPTURES.rglob("*.jsonl")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_conversation_without_secrets_is_not_changed(path: Path) -> None:
    lines: list[Line] = []
    for seq, line in enumerate(path.read_text("utf-8").split("\n")[1:]):
        if not line:
            continue
        captured = json.loads(line)
        frames = captured.get("frames") or [captured.get("frame")]
        lines += [
            FrameLine(seq=seq, t=seq, link="up", dir="receive", dialect="pod", text=frame)
            for frame in frames
            if isinstance(frame, str)
        ]
    assert lines
    redactor = Redactor(RedactionRules(), b"salt")
    assert all_released(redactor, lines) == lines
