"""A recording as a client: its commands to live backends of all dialects, on real sockets, and the differences
found.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Line, read
from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.driving import Driven, DrivingError
from dragoman.gateway.replay.plan import read_plan
from dragoman.gateway.replay.standalone import drive
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import AnswerInteraction
from dragoman.mappings.canonical.events import InteractionInvalid, TextDelta, TurnEnded
from dragoman.mappings.canonical.values import FieldError
from dragoman.mappings.dialect import Burst
from tests.gateway.recording.lines import FROZEN
from tests.pairs.recorded import CANCELLED_AFTER, live_demo, record, turns
from tests.pairs.table import DIALECTS
from tests.pairs.turn_clients import SmoothTurnClient, TurnClient


async def driven(recording: Path, dialect: str, folder: Path, script: list[list[Line]], deadline: float = 20) -> Driven:
    plan = read_plan(open_recording(recording))
    async with live_demo(dialect, folder / "live", script) as endpoint:
        return await asyncio.to_thread(drive, plan, parse(endpoint), deadline=deadline)


@pytest.mark.parametrize("backend", DIALECTS)
async def test_driving_an_unchanged_backend_finds_no_difference(backend: str, tmp_path: Path) -> None:
    """The turns have text, tools, failures, a cancel and a question, in the form of the dialect or in words."""
    recording = await record("smooth", backend, tmp_path)
    found = await driven(recording, backend, tmp_path, turns())
    assert str(found) == ""
    assert found.same
    assert found.turns >= 6, "where questions are put in words an answer is a turn of its own"


@pytest.mark.parametrize("backend", DIALECTS)
async def test_driving_a_replay_of_the_same_recording_finds_no_difference(backend: str, tmp_path: Path) -> None:
    recording = await record("pod", backend, tmp_path)
    replay = parse(f"replay+file:{recording}?speed=instant")
    assert str(await asyncio.to_thread(drive, read_plan(open_recording(recording)), replay, deadline=20)) == ""


def test_driving_a_replay_of_the_frozen_recording_finds_no_difference() -> None:
    recording = FROZEN / "v4.jsonl"
    found = drive(read_plan(open_recording(recording)), parse(f"replay+file:{recording}?speed=instant"), deadline=20)
    assert (str(found), found.turns) == ("", 1)


CHOICE = {
    "questions": [
        {"question": "Which size?", "header": "Size", "options": [{"label": "Small"}, {"label": "Large"}]},
        {
            "question": "What on it?",
            "header": "On it",
            "options": [{"label": "Ham"}, {"label": "Olives"}],
            "multiSelect": True,
        },
    ]
}
ON_IT = {"header": "On it", "options": ["Ham"], "other": "rice"}
CHOSEN = {"answers": [{"header": "Size", "options": ["Large"]}, ON_IT]}


def asks(kind: str, spec: object) -> list[list[Line]]:
    """Return a turn that shows a form."""
    lines: list[dict[str, object]] = [
        {"type": "text_delta", "text": "One moment. "},
        {"type": "interaction_required", "question": "q", "kind": kind, "spec": spec, "reason": "For the order."},
        {"type": "text_delta", "text": "Thank you.", "when": "submitted"},
        {"type": "text_delta", "text": "As you like.", "when": "declined"},
        {"type": "turn_ended", "end": "completed"},
    ]
    return read("\n".join(map(json.dumps, lines)), "form")


IDENTITY = {"fields": [{"key": "name", "label": "name"}, {"key": "email", "required": False}, {"key": "phone"}]}


@pytest.mark.parametrize("backend", DIALECTS)
@pytest.mark.parametrize(
    ("kind", "spec", "answer"),
    [
        ("identity_intake", IDENTITY, {"values": {"name": "Ada", "phone": "5551234567"}}),
        ("choices", CHOICE, {"values": CHOSEN}),
        ("choices", CHOICE, {"declined": True}),
    ],
)
async def test_a_recorded_form_is_typed_if_the_backend_asks_in_words(
    backend: str, kind: str, spec: object, answer: dict[str, object], tmp_path: Path
) -> None:
    """The recorded turn equals that of a backend that ends its run with each field (docs/translation.md, rule 3.3)."""

    async def talk(peer: TurnClient) -> None:
        assert isinstance(peer, SmoothTurnClient)
        client = peer.client
        await client.say("A pizza.")
        await client.until(lambda: client.frames[-1]["type"] == "interaction_required")
        form = client.frames[-1]["data"]["data"]
        submit = {"action": "submit_interaction", "sessionId": client.session, "kind": kind, "declined": False}
        await client.send({**submit, "interactionId": form["interactionId"], **answer})
        await client.until(lambda: bool(client.terminals()))
        assert (await peer.turn("Another.", cancel_after=CANCELLED_AFTER)).end == "cancelled"

    script = [*asks(kind, spec), turns()[3]]
    recording = await record("smooth", "smooth", tmp_path, script=script, talk=talk)
    found = await driven(recording, backend, tmp_path, script, deadline=5)
    assert (str(found), found.turns) == ("", 2)


class Picky(DemoBackend):
    """A backend that refuses short telephone numbers."""

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, AnswerInteraction) and command.values and b'"1"' in bytes(command.values):
                errors = (FieldError(field="phone", text="It is too short."),)
                refused = InteractionInvalid(
                    request=command.request, question="q", kind="identity_intake", errors=errors, text="Not so."
                )
                self._session.receive([Burst(items=[refused])])
            else:
                super().send([command])


@pytest.mark.parametrize("backend", DIALECTS)
async def test_a_refused_form_is_filled_in_again_as_recorded(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(peer: TurnClient) -> None:
        client = peer.client
        await client.say("A pizza.")
        await client.until(lambda: client.frames[-1]["type"] == "interaction_required")
        form = client.frames[-1]["data"]["data"]
        submit = {"action": "submit_interaction", "sessionId": client.session, "kind": "identity_intake"}
        for phone in ("1", "5551234567"):
            values = {"name": "Ada", "phone": phone}
            await client.send({**submit, "interactionId": form["interactionId"], "declined": False, "values": values})
            over = {"eventual_response"} if phone != "1" else {"interaction_invalid"}
            await client.until(lambda over=over: client.frames[-1]["type"] in over)

    monkeypatch.setattr("dragoman.gateway.demo.backend.DemoBackend", Picky)
    script = [*asks("identity_intake", IDENTITY), turns()[0]]
    recording = await record("smooth", "smooth", tmp_path, script=script, talk=talk)
    found = await driven(recording, backend, tmp_path, script, deadline=5)
    assert (str(found), found.turns) == ("", 1)


@pytest.mark.parametrize("backend", DIALECTS)
async def test_a_recorded_approval_is_typed_if_the_backend_asks_in_words(backend: str, tmp_path: Path) -> None:
    recording = await record("smooth", "smooth", tmp_path)
    found = await driven(recording, backend, tmp_path, turns())
    assert {difference.what for difference in found.differences} <= {"end"}  # a pando tells no failure


def said_otherwise(script: list[list[Line]]) -> list[list[Line]]:
    """Return the turns with a third one that has another text and a fourth one that fails."""
    other = structs.replace(script[2][0], event=TextDelta(text="Another answer. "))
    failed = structs.replace(script[3][-1], event=TurnEnded(end="failed"))
    return [*script[:2], [other, *script[2]], [*script[3][:2], failed], *script[4:]]


async def test_differences_of_a_backend_are_found(tmp_path: Path) -> None:
    recording = await record("smooth", "smooth", tmp_path)
    found = await driven(recording, "smooth", tmp_path, said_otherwise(turns()))
    assert not found.same
    assert {(difference.turn, difference.what) for difference in found.differences} >= {(3, "text"), (4, "end")}
    assert "Another answer. The second try worked." in str(found)
    assert all(difference.turn in (3, 4) for difference in found.differences), (
        "the turns behind it are said as recorded"
    )


async def test_a_question_that_was_not_recorded_is_denied_and_reported(tmp_path: Path) -> None:
    recording = await record("smooth", "smooth", tmp_path)
    script = turns()
    script[0] = script[4]
    found = await driven(recording, "smooth", tmp_path, script)
    assert (1, "question refund_order") in {(difference.turn, difference.what) for difference in found.differences}
    assert 5 not in {difference.turn for difference in found.differences}


async def test_a_backend_that_does_not_end_a_turn_is_given_up(tmp_path: Path) -> None:
    recording = await record("smooth", "smooth", tmp_path)
    endless = [structs.replace(line, delay=60.0) for line in turns()[0]]
    found = await driven(recording, "smooth", tmp_path, [endless], deadline=0.3)
    assert found.refusals[-1] == "the backend did not end a turn within 0.3 s"
    assert not found.same


def test_a_missing_backend_is_an_error(tmp_path: Path) -> None:
    play = read_plan(open_recording(FROZEN / "v4.jsonl"))
    with pytest.raises(DrivingError, match=r"the backend opened no session: .*cannot be reached"):
        drive(play, parse("smooth+ws://127.0.0.1:9/ws"), deadline=5)
