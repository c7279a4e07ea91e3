"""Descriptions of sessions for callers, and losses of single rules."""

from __future__ import annotations

import json
from typing import get_args

from msgspec import Raw

from dragoman.mappings.canonical import Event, SessionState, commands, events
from dragoman.mappings.canonical.values import FileAttachment, KnowledgeRef, Message, Text
from dragoman.mappings.dialect import Burst
from dragoman.mappings.pando import DIALECT
from dragoman.mappings.pando.from_canonical.events import FROM_EVENT
from dragoman.mappings.pando.from_canonical.replies import described, public_ids
from dragoman.mappings.pando.vocabulary import keep


def test_clients_know_a_session_by_the_backend_s_own_id_if_there_is_one() -> None:
    assert public_ids("uuid", keep(id="s-1")) == ("s-1",)
    assert public_ids("uuid") == ("uuid",)


def test_a_session_without_a_name_has_its_first_input_as_title() -> None:
    said = [Message(role="system", text="rules"), Message(role="user", text="hi"), Message(role="assistant", text="ho")]
    session = described(SessionState(id="s", opened_at=10**9, transcript=[*said]))
    assert (session.title, session.message_count, session.updated_at) == ("hi", 2, "1970-01-01T00:00:01Z")


def test_input_is_one_string_and_attachments_are_counted() -> None:
    segments = (Text(text="see "), KnowledgeRef(slug="x"), FileAttachment(name="n", url="u"))
    command = commands.SubmitInput(request="r", session="s", segments=segments, model="big")
    rendered = DIALECT.commands.write(Burst(items=[command]))
    assert json.loads(rendered.frames[0])["params"] == {"session_id": "s", "content": "see #x"}
    assert [(loss.field, loss.count) for loss in rendered.losses] == [("segments", 1)]


def test_a_message_of_the_assistant_is_not_appended() -> None:
    event = events.MessageAppended(message=Message(role="assistant", text="x"))
    rendered = DIALECT.events.write(Burst(items=[event]))
    assert (rendered.frames, len(rendered.losses)) == ([], 1)


def test_a_change_of_another_dialect_s_store_is_counted() -> None:
    event = events.StoreChanged(topic="db.goal.created", change=Raw(b"{}"))
    rendered = DIALECT.events.write(Burst(items=[event]))
    assert (rendered.frames, len(rendered.losses)) == ([], 1)


def test_pando_publishes_only_internal_events_that_it_has_itself() -> None:
    shown = {
        kind.__name__
        for kind in get_args(Event)
        if kind.visibility != "public" and FROM_EVENT.entries[kind].fidelity.kind != "none"
    }
    assert shown == {"StoreChanged", "Unmapped"}
