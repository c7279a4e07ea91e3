"""The files in which a launched pod keeps its state: written whole, and logged if they cannot be written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.launched.state_files import ChildState, Conversation, KeptConversation

SESSION = "01a21a99-65a1-7600-9f4b-aa35f587f014"
MINE = Conversation(pod_name="atlas", route="r", upstream="smooth+ws://x/ws", session="c1")


def kept(folder: Path, name: str = "atlas") -> str:
    return KeptConversation(folder, name).read("r", "smooth+ws://x/ws")


def test_a_kept_conversation_is_read_only_under_its_name(tmp_path: Path) -> None:
    KeptConversation(tmp_path, "atlas").write(MINE)
    assert (kept(tmp_path), kept(tmp_path, "hermes")) == ("c1", "")


def test_the_conversation_that_was_kept_last_counts(tmp_path: Path) -> None:
    file = KeptConversation(tmp_path, "atlas")
    file.write(MINE)
    file.write(structs.replace(MINE, session="c2"))
    assert kept(tmp_path) == "c2"
    assert [path.name for path in (tmp_path / "dragoman/atlas").iterdir()] == ["conversation.json"]


def test_the_conversation_of_another_backend_is_ignored(tmp_path: Path) -> None:
    for other in (structs.replace(MINE, route="other"), structs.replace(MINE, upstream="smooth+ws://y/ws")):
        KeptConversation(tmp_path, "atlas").write(other)
        assert kept(tmp_path) == ""


def test_a_damaged_file_counts_as_missing(tmp_path: Path) -> None:
    KeptConversation(tmp_path, "atlas").write(MINE)
    (tmp_path / "dragoman/atlas/conversation.json").write_text('{"pod_name": "at')
    assert kept(tmp_path) == ""


def test_the_metadata_of_a_real_pod_is_left_alone(tmp_path: Path) -> None:
    real = tmp_path / "pods/atlas/metadata.json"
    real.parent.mkdir(parents=True)
    real.write_text("real")
    KeptConversation(tmp_path, "atlas").write(MINE)
    assert real.read_text() == "real"


def test_the_session_goes_on_if_the_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with capture_logs() as logs:
        KeptConversation(tmp_path / "file", "atlas").write(MINE)
    assert kept(tmp_path / "file") == ""
    assert [line["event"] for line in logs] == ["cannot save the id of the pod's conversation"]


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


def test_a_file_that_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, file = ChildState(tmp_path, "kid"), tmp_path / "pods" / "kid" / "metadata.json"
    state.write()

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr("os.unlink", refuse)
    state.remove()
    assert file.exists()


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
