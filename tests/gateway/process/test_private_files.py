"""Small files that are replaced at once, and never written through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.gateway.process.private_files import make_folder, write_file


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    for content in (b"a longer one", b"another"):
        write_file(path, content)
    assert path.read_bytes() == b"another"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "pid").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_file(tmp_path / "pid", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]


def test_an_error_names_the_file_and_not_its_draft(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "pid"
    with pytest.raises(FileNotFoundError) as caught:
        write_file(path, b"1")
    assert caught.value.filename == str(path)


def test_no_link_in_the_folder_leads_to_another_file(tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "folder"
    precious.write_text("do not touch")
    folder.mkdir()
    (folder / ".pid.tmp").symlink_to(precious)
    (folder / "pid").hardlink_to(precious)
    write_file(folder / "pid", b"1")
    assert precious.read_text() == "do not touch"
    assert [(path.name, path.is_symlink(), path.read_bytes()) for path in folder.iterdir()] == [("pid", False, b"1")]


def test_files_and_folders_are_for_their_owner_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b")
        write_file(tmp_path / "a" / "b" / "pid", b"1")
    finally:
        os.umask(mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "pid": 0o600}


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
