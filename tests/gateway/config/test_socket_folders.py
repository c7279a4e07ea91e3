"""Folders in which another user could replace a listening socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.adapters import unix
from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Config, Ops, Route
from dragoman.gateway.config.socket_folders import find_socket_hazard
from dragoman.gateway.config.startup import find_hazards
from dragoman.gateway.endpoint import parse


def hazard(path: Path) -> str:
    return find_socket_hazard(parse(f"pod+unix:{path}"))


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_a_folder_in_which_only_its_owner_can_delete_files_is_no_hazard(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert hazard(tmp_path / "sock") == ""


@pytest.mark.parametrize("mode", [0o770, 0o777])
def test_a_folder_to_which_others_may_write_is_a_hazard(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    why = f"other users could replace the socket {tmp_path}/sock: {tmp_path} has the mode 0{mode:o}"
    assert hazard(tmp_path / "sock") == f"{why}; `chmod go-w {tmp_path}`"


def test_a_folder_above_the_one_of_the_socket_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    tmp_path.chmod(0o777)
    assert f"{tmp_path} has the mode 0777" in hazard(tmp_path / "own/sock")


def test_the_folder_that_a_link_leads_to_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    assert f"{tmp_path}/open has the mode 0777" in hazard(tmp_path / "link/sock")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_link_of_another_user_is_a_hazard(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    assert f"{tmp_path}/link belongs to another user" in hazard(tmp_path / "link/sock")


def test_a_link_at_the_path_of_a_socket_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a file that is not a socket exists here"):
        unix.bind_socket(str(tmp_path / "sock"))
    assert not (tmp_path / "elsewhere").exists()


def test_check_and_the_start_warn_of_it_and_the_gateway_can_be_served(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    file = tmp_path / "c.toml"
    file.write_text(f"[[route]]\nlisten = ['pod+unix:{tmp_path}/sock']\nupstream = 'pod+unix:/u'\n")
    checked = check(file)
    (problem,) = checked.problems
    assert (problem.level, problem.path) == ("warning", "route[0].listen[0]")
    assert checked.config is not None
    assert list(find_hazards(checked.config)) == [problem.text]


def test_the_socket_of_the_ops_port_counts_as_well(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    route = Route(name="a", listen=(), upstream=parse("pod+unix:/u"))
    (text,) = find_hazards(Config(routes=(route,), ops=Ops(listen=f"unix:{tmp_path}/ops.sock")))
    assert f"other users could replace the socket {tmp_path}/ops.sock" in text
