"""Tables of commands on a terminal."""

from __future__ import annotations

import uuid

import pytest

from dragoman.gateway.cli.output import print_table


def test_a_narrow_terminal_wraps_the_lines_of_a_table_and_leaves_each_id_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "80")
    row = {"id": str(uuid.UUID(int=7)), "route": "assistant", "owner": "token:alice", "title": "Where is my order?" * 9}
    short = {**row, "title": "Hi"}
    print_table(tuple(row), [row, short])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == list(row)
    assert [line.split(maxsplit=3) for line in lines] == [list(row.values()), list(short.values())]
    assert max(len(head), len(lines[1])) < 80, "no spaces that the terminal would wrap"
