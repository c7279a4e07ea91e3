"""The files in which launched programs keep their state."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from structlog.testing import capture_logs

from dragoman.gateway.launched.state_file import write_state


class Kept(Struct):
    """A state."""

    name: str


def test_a_state_is_written_into_a_new_folder_and_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "pods" / "atlas" / "state.json"
    for name in ("one", "two"):
        assert write_state(path, Kept(name=name), "cannot save it")
    assert path.read_bytes() == b'{"name":"two"}'
    assert list(path.parent.iterdir()) == [path]


def test_a_state_that_cannot_be_written_is_logged_with_what_that_means(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("a file in the place of the folder")
    path = tmp_path / "pods" / "state.json"
    with capture_logs() as logs:
        assert not write_state(path, Kept(name="one"), "cannot save it")
    assert [(line["event"], line["file"]) for line in logs] == [("cannot save it", str(path))]
