"""Reading a small file named by a user, which may be of any kind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dragoman.gateway.config.source import find_secret, read_secret, read_small
from dragoman.mappings.errors import ConfigError


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100)
    assert read_small(tmp_path / "f", 100) == b"x" * 100


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 101)
    with pytest.raises(ConfigError, match="more than 100 bytes"):
        read_small(tmp_path / "f", 100)


def test_a_sparse_file_of_a_gigabyte_is_refused_after_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="more than 1,000 bytes"):
        read_small(tmp_path / "f", 1000)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_small(tmp_path, 1000)


def test_a_fifo_without_a_writer_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with pytest.raises(ConfigError, match="the rest of it was not written"):
        read_small(tmp_path / "f", 1000, wait=0.01)


def test_a_pipe_is_read_as_a_process_substitution_of_a_shell_writes_it() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        os.write(writing, b"one")
        os.write(writing, b"two")
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_small(Path(f"/dev/fd/{reading}"), 1000) == b"onetwo"
    finally:
        writer.join()
        os.close(reading)


def test_a_pipe_to_which_nobody_writes_is_given_up() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(ConfigError, match="the rest of it was not written"):
            read_small(Path(f"/dev/fd/{reading}"), 1000, wait=0.01)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(ConfigError, match="null"):
        read_small(Path("a\0b"), 1000)


def test_the_secret_of_a_file_has_no_newline_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\r\n\n", "utf-8")
    assert read_secret(tmp_path / "f") == "a\nb"
    with pytest.raises(ConfigError, match="nothing cannot be read"):
        read_secret(tmp_path / "nothing")


@pytest.mark.parametrize(("value", "words"), [(None, "is not set"), ("", "is empty")])
def test_a_secret_in_a_variable_without_a_value_is_an_error(
    monkeypatch: pytest.MonkeyPatch, value: str | None, words: str
) -> None:
    monkeypatch.delenv("DRAGOMAN_TEST_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("DRAGOMAN_TEST_TOKEN", value)
    with pytest.raises(ConfigError, match=words):
        find_secret("env:DRAGOMAN_TEST_TOKEN")
