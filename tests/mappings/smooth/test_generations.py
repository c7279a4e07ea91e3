"""A server of the seed: it writes no later form and refuses later actions (docs/dialects/smooth.md, section 10)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from msgspec import Raw, structs

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import End, Usage
from dragoman.mappings.dialect import Oversize
from dragoman.mappings.smooth import DIALECT
from dragoman.mappings.smooth.projection import Projection
from dragoman.mappings.smooth.translator.server import ServerTranslator
from dragoman.mappings.smooth.vocabulary import SEED
from tests.mappings.smooth.server_link import SEND
from tests.mappings.smooth.test_projection import batch, turn_of
from tests.shared import SHARED, needs_shared

CREATE = {"action": "create_conversation_session", "requestId": "c", "agentId": "a"}


def seed_frames(*items: Any) -> list[dict[str, Any]]:
    rendered = Projection("q", f"identity_intake choices {SEED}").render(batch(*items))
    return [json.loads(frame) for frame in rendered.frames]


def hears(frame: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the commands and answers for an action to a server of the seed."""
    step = ServerTranslator(lambda: 0, lambda: "minted", SEED).receive([json.dumps(frame).encode()])
    return [item for burst in step.bursts for item in burst.items], [json.loads(frame) for frame in step.frames]


def test_a_cancelled_turn_ends_with_an_error() -> None:
    (*_, terminal) = seed_frames(*turn_of("cancelled"))
    assert (terminal["type"], terminal["requestId"], terminal["error"]["code"]) == ("error", "q", "AGENT_ERROR")


def test_reasoning_and_preambles_are_counted_and_not_shown() -> None:
    rendered = Projection("q", SEED).render(batch(events.ReasoningDelta(text="hm"), events.Preamble(text="wait")))
    assert rendered.frames == []
    assert {(loss.kind, loss.count) for loss in rendered.losses} == {("ReasoningDelta", 1), ("Preamble", 1)}


def test_the_terminal_has_no_later_fields_which_are_counted() -> None:
    ext = {"smooth.directive": Raw(b'{"type":"x"}'), "smooth.citations": Raw(b"[]")}
    ended = events.TurnEnded(end="completed", text="hi", usage=Usage(input_tokens=1, output_tokens=2), ext=ext)
    rendered = Projection("q", SEED).render(batch(ended))
    (terminal,) = map(json.loads, rendered.frames)
    assert {"usage", "directive"}.isdisjoint(terminal["data"]["data"])
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [
        ("TurnEnded", "usage"),
        ("TurnEnded", "ext.directive"),
    ]


@needs_shared
@pytest.mark.parametrize("end", ["completed", "limit_reached", "failed", "cancelled", "paused", "rolled_back"])
def test_every_frame_of_a_turn_fits_the_seeds_schemas(end: End) -> None:
    assert SHARED is not None
    folder = SHARED / "smooth-operator" / "spec-1.3.0" / "events"
    frames = seed_frames(*turn_of(end))
    assert {"stream_token", "stream_chunk"} <= {frame["type"] for frame in frames}
    for frame in frames:
        schema = json.loads((folder / f"{frame['type'].replace('_', '-')}.schema.json").read_text("utf-8"))
        jsonschema.Draft202012Validator(schema).validate(frame)


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("cancel", {}),
        ("list_conversations", {}),
        ("rename_conversation", {"conversationId": "c", "title": "t"}),
        ("submit_interaction", {"sessionId": "s", "interactionId": "i", "values": {}}),
        ("rename_conversation", {}),
        ("submit_interaction", {"sessionId": 1}),
    ],
)
def test_a_later_action_is_unsupported(action: str, fields: dict[str, Any]) -> None:
    items, (answer,) = hears({"action": action, "requestId": "r", **fields})
    assert items == []
    assert (answer["requestId"], answer["error"]["code"]) == ("r", "UNSUPPORTED_ACTION")


def test_a_conversation_is_always_new_and_claims_no_forms() -> None:
    ((command,), _) = hears(CREATE | {"conversationId": "old", "supports": ["identity_form"]})
    assert command == commands.OpenSession(request="c", agent="a", supports=())


def test_features_that_the_seed_ignores_are_counted() -> None:
    server = ServerTranslator(lambda: 0, lambda: "minted", SEED)
    server.note_backend(structs.replace(DIALECT, name="pod"))
    actions = (CREATE | {"conversationId": "old", "supports": ["identity_form"]}, SEND | {"skill": "meteo"})
    losses = [loss for action in actions for loss in server.receive([json.dumps(action).encode()]).losses]
    assert [(loss.kind, loss.field) for loss in losses] == [
        ("ResumeSession", "supports"),
        ("ResumeSession", "conversationId"),
        ("SubmitInput", "skill"),
    ]


def test_a_missing_agent_gets_a_new_id() -> None:
    ((command,), _) = hears({"action": "create_conversation_session", "requestId": "c"})
    assert structs.replace(command, ext=None) == commands.OpenSession(request="c", agent="minted", supports=())


def test_a_conversation_of_which_only_the_beginning_was_read_is_refused() -> None:
    create = {"action": "create_conversation_session", "requestId": "c"}
    refused = Oversize(size=2, limit=1, name="max_command", head=json.dumps(create).encode())
    assert ServerTranslator(lambda: 0, lambda: "minted", SEED).receive([refused]).bursts == []
