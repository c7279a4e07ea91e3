"""Which conversation stood behind a pod's name, kept in a file from one process to the next."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from dragoman.gateway.launched.pod import Conversation, KeptConversation

MINE = Conversation(pod_name="atlas", route="r", upstream="smooth+ws://x/ws", session="c1")


def kept(folder: Path, name: str = "atlas") -> str:
    return KeptConversation(folder, name).read("r", "smooth+ws://x/ws")


def test_what_was_written_is_read_under_its_name_alone(tmp_path: Path) -> None:
    KeptConversation(tmp_path, "atlas").write(MINE)
    assert (kept(tmp_path), kept(tmp_path, "hermes")) == ("c1", "")


def test_the_last_conversation_counts(tmp_path: Path) -> None:
    file = KeptConversation(tmp_path, "atlas")
    file.write(MINE)
    file.write(structs.replace(MINE, session="c2"))
    assert kept(tmp_path) == "c2"


def test_the_conversation_of_another_backend_is_not_asked_of_this_one(tmp_path: Path) -> None:
    for other in (structs.replace(MINE, route="other"), structs.replace(MINE, upstream="smooth+ws://y/ws")):
        KeptConversation(tmp_path, "atlas").write(other)
        assert kept(tmp_path) == ""


def test_a_file_that_is_damaged_is_as_none(tmp_path: Path) -> None:
    KeptConversation(tmp_path, "atlas").write(MINE)
    (tmp_path / "dragoman/atlas/conversation.json").write_text('{"pod_name": "at')
    assert kept(tmp_path) == ""


def test_the_metadata_of_a_real_pod_is_left_alone(tmp_path: Path) -> None:
    real = tmp_path / "pods/atlas/metadata.json"
    real.parent.mkdir(parents=True)
    real.write_text("real")
    KeptConversation(tmp_path, "atlas").write(MINE)
    assert real.read_text() == "real"


def test_where_nothing_can_be_written_the_session_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    KeptConversation(tmp_path / "file", "atlas").write(MINE)
    assert kept(tmp_path / "file") == ""
