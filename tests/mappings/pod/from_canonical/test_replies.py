"""The snapshot and the rotation of a session for a pod client."""

from __future__ import annotations

from typing import Any

from msgspec import json

from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.values import BackendInfo, Message, Text
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.from_canonical.replies import rotation, snapshot
from tests.mappings.pod.data import CAPTURES, captured

SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"
SNAPSHOT = next(
    frame for path in CAPTURES if path.stem.startswith("01-") for _, way, frame in captured(path) if way == "s2c"
)


def state_of(frame: bytes) -> SessionState:
    """Return a session with this history of its backend, as the gateway folds it."""
    step: Step[Any] = Step()
    DIALECT.events.receive([frame], step)
    (event,) = step.bursts[0].items
    assert isinstance(event, HistorySnapshot)
    state = SessionState(id=SESSION, transcript=list(event.items), snapshot_ext=event.ext)
    if event.backend is not None:
        state.backend = event.backend
    return state


def frame_of(state: SessionState) -> bytes:
    return DIALECT.events.codec.encode(snapshot(state))


def data_of(state: SessionState) -> dict[str, Any]:
    data: dict[str, Any] = json.decode(frame_of(state))["data"]
    return data


def user(text: str) -> Message:
    return Message(role="user", text=text, segments=(Text(text=text),), turn="t", id="m")


def test_a_pods_own_snapshot_is_shown_unchanged() -> None:
    assert frame_of(state_of(SNAPSHOT)) == SNAPSHOT


def test_items_after_the_pods_own_entries_get_made_entries() -> None:
    state = state_of(SNAPSHOT)
    state.transcript += [user("more"), Message(role="assistant", text="said", turn="t")]
    entries, true = data_of(state)["entries"], json.decode(SNAPSHOT)["data"]["entries"]
    assert entries[: len(true)] == true
    assert [entry["kind"] for entry in entries[len(true) :]] == [
        "invoke",
        "user_input",
        "assistant_item",
        "run_completed",
    ]


def test_an_open_turn_ends_with_invoke_and_user_input() -> None:
    state = state_of(SNAPSHOT)
    state.transcript.append(user("more"))
    state.turn, state.status = OpenTurn(id="t", message="m"), "running"
    data = data_of(state)
    assert [entry["kind"] for entry in data["entries"][-2:]] == ["invoke", "user_input"]
    assert data["status"] == "running"


def test_a_shortened_history_is_shown_from_the_transcript() -> None:
    state = state_of(SNAPSHOT)
    del state.transcript[:3]
    entries = data_of(state)["entries"]
    assert "segment_start" not in [entry["kind"] for entry in entries]
    assert entries


def test_a_rotated_history_is_shown_as_its_segment_start() -> None:
    frame = (
        b'{"event":"segment_rotated","data":{"entry":{"history":[{"content":[{"kind":"text","text":"sum"}],"kind":"message",'
        b'"role":"system"}],"kind":"segment_start","ts":5}}}'
    )
    state = state_of(frame)
    state.transcript.append(user("more"))
    entries = data_of(state)["entries"]
    assert entries[0] == json.decode(frame)["data"]["entry"]
    assert [entry["kind"] for entry in entries[1:]] == ["invoke", "user_input", "run_completed"]


def test_a_session_without_backend_is_an_empty_idle_pod_of_unknown_provider() -> None:
    said = frame_of(SessionState(id=SESSION, backend=BackendInfo(name="demo")))
    assert said == (
        b'{"event":"snapshot","data":{"entries":[],"greeting":{"pod_name":"demo","cwd":"","provider":"unknown","model":"",'
        b'"scope_summary":"","tools":[],"context_window":0,"context_tokens":0},"status":"idle"}}'
    )


def test_ids_and_turns_added_by_the_session_do_not_hide_the_pods_own_entries() -> None:
    state = state_of(SNAPSHOT)
    first = state.transcript[0]
    assert isinstance(first, Message)
    state.transcript[0] = Message(role="user", text=first.text, segments=first.segments, id="m", turn="t", at=1)
    assert frame_of(state) == SNAPSHOT


def test_a_rotation_carries_the_whole_transcript() -> None:
    state = SessionState(id=SESSION, transcript=[user("q"), Message(role="assistant", text="a")])
    entry = json.decode(DIALECT.events.codec.encode(rotation(state, 7_000_000)))["data"]["entry"]
    assert (entry["kind"], entry["session_id"], entry["ts"]) == ("segment_start", SESSION, 7)
    assert [item["content"][0]["text"] for item in entry["history"]] == ["q", "a"]
