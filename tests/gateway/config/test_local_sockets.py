"""Servers of this machine are found without connecting to them, and folders in which another user could replace one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dragoman.adapters import unix
from dragoman.gateway import registry
from dragoman.gateway.config.check import check
from dragoman.gateway.config.local_sockets import find_local_server
from dragoman.gateway.config.model import Config, Ops, Route
from dragoman.gateway.config.startup import find_hazards, probe
from dragoman.gateway.endpoint import parse
from tests.reserved_ports import reserved_port
from tests.step_counter import count_steps

SOCK = f"{os.getpid()}.sock"  # the name of no socket in a container of this machine, which would count
TCP_HEAD = "sl local_address ...\n"
TCP_ROW = "{}: 0100007F:{:04X} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 1\n"
LISTEN = (parse("smooth+ws://127.0.0.1:0/ws"),)


def test_a_listening_unix_socket_is_found_and_not_connected_to(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen()
        server.setblocking(False)
        assert find_local_server(parse(f"pod+unix:{tmp_path}/sock")) is True
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_socket_file_without_a_listener_is_no_server(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "stale"))
    assert find_local_server(parse(f"pod+unix:{tmp_path}/stale")) is False


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_listening_port_of_loopback_is_found_and_not_connected_to(family: socket.AddressFamily) -> None:
    with socket.socket(family) as server:
        server.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        server.listen()
        server.setblocking(False)
        host = "127.0.0.1" if family == socket.AF_INET else "[::1]"
        assert find_local_server(parse(f"smooth+ws://{host}:{server.getsockname()[1]}/ws")) is True
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_socket_file_without_a_listener_is_not_that_of_another_folder(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone, socket.socket(socket.AF_UNIX) as other:
        for name, server in (("gone", gone), ("other", other)):
            (tmp_path / name).mkdir()
            server.bind(str(tmp_path / name / SOCK))
            server.listen()
        gone.close()
        (tmp_path / "link").symlink_to(tmp_path / "other")
        found = {
            name: find_local_server(parse(f"pod+unix:{tmp_path}/{name}/{SOCK}")) for name in ("gone", "other", "link")
        }
    assert found == {"gone": False, "other": True, "link": True}


def test_the_socket_of_another_mount_counts_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "sock").touch()
    (tmp_path / "unix").write_text(
        "Num RefCount\n0: 00000002 00000000 00010000 0001 01 7 /elsewhere/in/a/container/sock\n"
    )
    assert find_local_server(parse(f"pod+unix:{tmp_path}/sock"), tmp_path) is True


def test_a_socket_to_which_this_user_may_not_connect_is_left_to_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    (tmp_path / "sock").touch()
    assert find_local_server(parse(f"pod+unix:{tmp_path}/sock")) is None


def test_a_port_that_is_bound_and_does_not_listen_is_no_server() -> None:
    with reserved_port() as port:
        assert find_local_server(parse(f"pando+tcp://127.0.0.1:{port}")) is False


def test_the_thousands_of_connections_after_the_listening_ports_are_not_read(tmp_path: Path) -> None:
    connections = "".join(TCP_ROW.format(number, 2, "01") for number in range(5000))
    for name in ("tcp", "tcp6"):
        (tmp_path / name).write_text(TCP_HEAD + TCP_ROW.format(0, 1, "0A") + connections)
    endpoints = [parse(f"pando+tcp://127.0.0.1:{port}") for port in (1, 2)]
    assert [find_local_server(endpoint, tmp_path) for endpoint in endpoints] == [True, False]
    assert count_steps(lambda: find_local_server(endpoints[1], tmp_path)) < 50_000


def test_a_port_that_is_not_among_the_first_of_a_machine_is_unknown(tmp_path: Path) -> None:
    listening = "".join(TCP_ROW.format(number, 1000 + number, "0A") for number in range(5000))
    for name in ("tcp", "tcp6"):
        (tmp_path / name).write_text(TCP_HEAD + listening)
    found = [find_local_server(parse(f"pando+tcp://127.0.0.1:{port}"), tmp_path) for port in (1100, 5500)]
    assert found == [True, None]


@pytest.mark.parametrize("place", [100, 600])  # among the rows that are read, and after them
def test_a_port_is_unknown_if_the_kernel_lists_sockets_in_any_order(tmp_path: Path, place: int) -> None:
    rows = [TCP_ROW.format(number, 2, "01") for number in range(1000)]
    rows[place] = TCP_ROW.format(place, 1, "0A")
    for name in ("tcp", "tcp6"):
        (tmp_path / name).write_text(TCP_HEAD + "".join(rows))
    assert find_local_server(parse("pando+tcp://127.0.0.1:3"), tmp_path) is None


@pytest.mark.parametrize("text", ["smooth+wss://example.com/ws", "codewhale+stdio:program", "pod+dir:/run/pods"])
def test_the_tables_do_not_tell_about_other_machines_programs_and_folders(text: str) -> None:
    assert find_local_server(parse(text)) is None


def test_a_system_without_ipv6_has_no_table_of_it(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text("sl local_address rem_address st\n0: 0100007F:0050 00000000:0000 0A\n")
    found = {port: find_local_server(parse(f"smooth+ws://127.0.0.1:{port}/ws"), tmp_path) for port in (80, 81)}
    assert found == {80: True, 81: False}


def test_local_server_is_unknown_on_a_system_without_socket_tables(tmp_path: Path) -> None:
    assert find_local_server(parse("smooth+ws://127.0.0.1:1/ws"), tmp_path / "none") is None


async def test_a_start_does_not_connect_to_a_backend_of_this_machine(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen()
        server.setblocking(False)
        upstreams = (f"pod+unix:{tmp_path}/sock", f"pod+unix:{tmp_path}/none")
        routes = tuple(Route(name=text, listen=LISTEN, upstream=parse(text)) for text in upstreams)
        there, missing = await probe(Config(routes=routes), starting=True)
        assert there == ""
        why = "nothing listens there; start the backend, or correct the address"
        assert missing == f"pod+unix:{tmp_path}/none cannot be reached: {why}"
        with pytest.raises(BlockingIOError):
            server.accept()


# -- who could replace a socket ---------------------------------------------------------------------


def hazard(path: Path) -> str:
    return registry.find_hazard(parse(f"pod+unix:{path}"))


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_a_folder_in_which_only_its_owner_can_delete_files_is_no_hazard(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert hazard(tmp_path / "sock") == ""


@pytest.mark.parametrize("mode", [0o770, 0o777])
def test_a_folder_to_which_others_may_write_is_a_hazard(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    why = f"other users could replace the socket {tmp_path}/sock: {tmp_path} has the mode 0{mode:o}"
    assert hazard(tmp_path / "sock") == f"{why}; `chmod go-w {tmp_path}`"


def test_a_project_of_pando_has_no_socket_that_others_could_replace(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert registry.find_hazard(parse(f"pando+dir:{tmp_path}")) == ""


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


def test_the_check_of_a_file_or_else_the_start_warns_of_it_and_the_gateway_can_be_served(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    file = tmp_path / "c.toml"
    file.write_text(f"[[route]]\nlisten = ['pod+unix:{tmp_path}/sock']\nupstream = 'pod+unix:/u'\n")
    checked = check(file)
    (problem,) = checked.problems
    assert (problem.level, problem.path) == ("warning", "route[0].listen[0]")
    assert checked.config is not None
    assert list(find_hazards(checked.config)) == []
    assert list(find_hazards(Config(routes=checked.config.routes))) == [problem.text]


def test_the_socket_of_the_ops_port_counts_as_well(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    route = Route(name="a", listen=(), upstream=parse("pod+unix:/u"))
    (text,) = find_hazards(Config(routes=(route,), ops=Ops(listen=f"unix:{tmp_path}/ops.sock")))
    assert f"other users could replace the socket {tmp_path}/ops.sock" in text
