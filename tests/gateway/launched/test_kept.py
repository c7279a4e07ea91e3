"""The file that keeps the conversation of a pod's name between processes."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from dragoman.gateway.launched.pod import Conversation, KeptConversation

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
    KeptConversation(tmp_path / "file", "atlas").write(MINE)
    assert kept(tmp_path / "file") == ""
