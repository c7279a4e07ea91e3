"""The file by which a parent pod finds a child."""

from __future__ import annotations

import json
from pathlib import Path

from dragoman.gateway.launched.child_state import ChildState

SESSION = "01a21a99-65a1-7600-9f4b-aa35f587f014"


def test_the_file_has_the_name_and_then_the_conversation_until_it_is_removed(tmp_path: Path) -> None:
    """A real child has the same keys (docs/dialects/pod.md, section 2)."""
    state, file = ChildState(tmp_path, "kid"), tmp_path / "pods" / "kid" / "metadata.json"
    state.write()
    assert json.loads(file.read_bytes()) == {"pod_name": "kid"}
    state.write(SESSION)
    active = {"session_id": SESSION, "segment_id": SESSION}
    assert json.loads(file.read_bytes()) == {"pod_name": "kid", "active": active}
    state.remove()
    assert not file.parent.exists()


def test_the_state_of_another_pod_is_neither_changed_nor_removed(tmp_path: Path) -> None:
    file = tmp_path / "pods" / "kid" / "metadata.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"pod_name":"kid","active":{"session_id":"theirs"}}')
    state = ChildState(tmp_path, "kid")
    state.write()
    state.write(SESSION)
    state.remove()
    assert file.read_text() == '{"pod_name":"kid","active":{"session_id":"theirs"}}'


def test_a_folder_that_cannot_be_written_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("no folder")
    state = ChildState(tmp_path, "kid")
    state.write()
    state.remove()
    assert (tmp_path / "pods").read_text() == "no folder"
