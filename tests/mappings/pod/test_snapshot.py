"""The snapshot of a session for a pod client: its entries, and its rendering in slices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec import json, structs

from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.values import BackendInfo, Message, Text
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.from_canonical.replies import SLICE, render_snapshot, snapshot_line
from tests.mappings.pod.data import CAPTURES, captured
from tests.step_counter import count_steps

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
    return snapshot_line(state)


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


def test_an_entry_with_a_number_out_of_range_is_read_and_replaced_by_made_entries() -> None:
    data = json.decode(SNAPSHOT)["data"]
    data["entries"] = [{"kind": "user_input", "segments": [{"kind": "text", "content": "x"}], "ts": 1, "y": "HUGE"}]
    state = state_of(json.encode({"event": "snapshot", "data": data}).replace(b'"HUGE"', b"1e400"))
    assert [entry["kind"] for entry in data_of(state)["entries"]] == ["invoke", "user_input"]


def test_a_rotated_history_is_shown_as_its_segment_start() -> None:
    frame = (
        b'{"event":"segment_rotated","data":{"entry":{"history":[{"content":[{"kind":"text","text":"sum"}],"kind":"message",'
        b'"role":"system"}],"kind":"segment_start","ts":5}}}'
    )
    state = state_of(frame)
    state.transcript.append(user("more"))
    entries = data_of(state)["entries"]
    assert entries[0] == json.decode(frame)["data"]["entry"]
    assert [entry["kind"] for entry in entries[1:]] == ["invoke", "user_input"]


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


TEXT = "t" * 1000
LONG = 400  # items of TEXT: six slices


def long_history(items: int = LONG, text: str = TEXT) -> SessionState:
    """Return a session with so many answers, all of ended turns."""
    transcript = [Message(role="assistant", text=f"{number} {text}", turn=str(number)) for number in range(items)]
    return SessionState(id=SESSION, transcript=[*transcript], fresh=items)


def own_history(items: int = LONG, text: str = TEXT) -> SessionState:
    """Return a session whose pod told so many entries itself."""
    entries = [
        {"item": {"content": [{"kind": "text", "text": text}], "kind": "message", "role": "assistant"}}
        | {"kind": "assistant_item", "ts": number}
        for number in range(items)
    ]
    said = {"event": "snapshot", "data": {"entries": entries, "greeting": json.decode(SNAPSHOT)["data"]["greeting"]}}
    state = state_of(json.encode(said))
    state.fresh = items
    return state


def anew(state: SessionState) -> bytes:
    """Return the snapshot of a session, rendered without slices."""
    return frame_of(structs.replace(state, rendered={}))


@pytest.mark.parametrize("make", [long_history, own_history])
def test_a_long_history_is_rendered_in_slices(make: Callable[[], SessionState]) -> None:
    state = make()
    sizes = list(render_snapshot(state))
    assert len(sizes) >= LONG * len(TEXT) // (SLICE + 2 * len(TEXT))
    assert max(sizes) < SLICE + 2 * len(TEXT)
    assert state.rendered["pod"].frame == anew(state)


@pytest.mark.parametrize("make", [long_history, own_history])
def test_all_clients_are_shown_the_same_object_until_the_session_changes(make: Callable[[], SessionState]) -> None:
    state = make()
    line = frame_of(state)
    assert frame_of(state) is line
    assert list(render_snapshot(state)) == []
    state.status = "paused"
    assert frame_of(state) == anew(state) != line


def steps_of_slices(state: SessionState) -> list[int]:
    slices, steps = render_snapshot(state), list[int]()
    while "pod" not in state.rendered:
        steps.append(count_steps(partial(next, slices, 0)))
    return steps


@pytest.mark.parametrize("make", [long_history, own_history])
def test_no_step_of_a_long_history_does_more_than_a_slice(make: Callable[[], SessionState]) -> None:
    steps = steps_of_slices(make())
    assert len(steps) > LONG * len(TEXT) // SLICE
    assert max(steps) < 2 * sum(steps) / len(steps)


@pytest.mark.parametrize("make", [long_history, own_history])
def test_a_slice_of_short_entries_takes_as_long_as_one_of_long_entries(make: Callable[..., SessionState]) -> None:
    assert steps_of_slices(make(4 * LONG, "x"))[0] < 3 * steps_of_slices(make())[0]


def test_items_that_come_between_two_slices_are_rendered_too() -> None:
    state = long_history()
    slices = render_snapshot(state)
    next(slices)
    state.transcript.append(Message(role="assistant", text="ended", turn="x"))
    state.fresh += 1
    state.transcript.append(user("of the open turn"))
    state.turn, state.status = OpenTurn(id="t", message="m"), "running"
    list(slices)
    assert state.rendered["pod"].frame == anew(state)
    assert b"of the open turn" in state.rendered["pod"].frame


def test_items_of_an_open_turn_that_are_replaced_between_two_slices_are_not_shown() -> None:
    state = long_history()
    state.transcript.append(user("said first"))
    slices = render_snapshot(state)
    next(slices)
    state.transcript[state.fresh :] = [user("said last")]
    state.fresh += 1
    list(slices)
    assert state.rendered["pod"].frame == anew(state)


def test_items_that_are_dropped_between_two_slices_are_shown_once_more() -> None:
    state = long_history()
    before = json.decode(anew(state))["data"]["entries"]
    slices = render_snapshot(state)
    next(slices)
    del state.transcript[:10]
    state.fresh -= 10
    list(slices)
    assert json.decode(state.rendered["pod"].frame)["data"]["entries"] == before


@pytest.mark.parametrize("make", [long_history, own_history])
def test_a_history_that_is_rewritten_between_two_slices_is_rendered_anew(make: Callable[[], SessionState]) -> None:
    state = make()
    slices = render_snapshot(state)
    next(slices)
    next(slices)
    rewritten = own_history(3)
    state.transcript, state.fresh, state.snapshot_ext = rewritten.transcript, 3, rewritten.snapshot_ext
    list(slices)
    assert frame_of(state) == anew(state)
    assert len(data_of(state)["entries"]) == 3
