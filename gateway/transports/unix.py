"""`unix:` endpoints, and those of pods: `name:` in the runtime directory, and `dir:` for many pods."""

from __future__ import annotations

import grp
import os
import pwd
import re
import socket
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from dragoman.adapters import unix
from dragoman.adapters.base import Listener
from dragoman.adapters.line_transport import LineTransport
from dragoman.gateway.config.local_sockets import find_path_hazard
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, Place, naming
from dragoman.gateway.pods.folder import PodFolder, check_name, runtime_directory
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.process.systemd import INHERITED
from dragoman.gateway.transports.spec import (
    Connect,
    ListenerCallbacks,
    Spawner,
    TransportSpec,
    transport_limits,
)
from dragoman.mappings.errors import ConfigError

bind_socket, check_bindable, file_identity = unix.bind_socket, unix.check_bindable, unix.file_identity

ID_MAX = 2**32 - 2  # the largest number of a user or group in Linux
OF_FILE = ("mode", "owner", "group")
ACCESS = frozenset({"uid", "gid", *OF_FILE})
"""Options of listeners: the users and groups that may connect, and the mode, owner and group of the socket's file."""


async def _listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    name = endpoint.option("fd")
    with naming(endpoint):
        inherited = INHERITED.take_path(name, endpoint.address) if name else None
    return await _listen_at(endpoint.address, endpoint, limits, callbacks, inherited)


async def _listen_at(
    path: str,
    endpoint: Endpoint,
    limits: Limits,
    callbacks: ListenerCallbacks,
    inherited: socket.socket | None = None,
) -> Listener:
    def accept(transport: LineTransport) -> None:
        callbacks.accept_as(transport.facts)(transport)

    return await unix.listen(path, transport_limits(limits), accept, _file(endpoint), inherited)


def _file(endpoint: Endpoint) -> unix.SocketFile:
    """Return the mode, owner and group of a listener's file; raise ConfigError for one that this system cannot set."""
    mode, owner, group = map(endpoint.option, OF_FILE)
    with naming(endpoint):
        return unix.SocketFile(
            mode=_mode(mode) if mode else unix.OWN.mode,
            uid=_number("owner", owner, lambda name: pwd.getpwnam(name).pw_uid) if owner else unix.OWN.uid,
            gid=_number("group", group, lambda name: grp.getgrnam(name).gr_gid) if group else unix.OWN.gid,
        )


def _mode(text: str) -> int:
    if re.fullmatch("0?[67][0-7]{2}", text) is None:
        raise ConfigError(f"mode={text}: write an octal number from 0600 to 0777")
    return int(text, 8)


def _number(option: str, text: str, find: Callable[[str], int]) -> int:
    """Return the number of a user or group, whose name `find` looks up."""
    if text.isdecimal():
        if len(text) > len(str(ID_MAX)) or int(text) > ID_MAX:
            raise ConfigError(f"{option}={text[:20]}: write a name, or a number up to {ID_MAX}")
        return int(text)
    try:
        return find(text)
    except (KeyError, ValueError) as error:  # ValueError: a NUL character
        raise ConfigError(f"this system has no user or group {text!r}") from error


def _check_access(endpoint: Endpoint) -> None:
    """Raise ConfigError for an invalid option about who may connect."""
    for key in ("uid", "gid"):
        for value in endpoint.all(key):
            if not value.isdecimal():
                raise ConfigError(
                    f"{endpoint.masked}: {key}={value}: write a number, and repeat the option for several"
                )
    _file(endpoint)


def _check_socket(endpoint: Endpoint) -> None:
    unix.check_path(endpoint.address)
    _check_access(endpoint)
    if endpoint.option("fd") and any(map(endpoint.option, OF_FILE)):
        raise ConfigError(f"{endpoint.masked}: an inherited socket has the mode, owner and group of its .socket unit")


def _check_place(endpoint: Endpoint) -> None:
    if not endpoint.option("fd"):  # an inherited socket has its file already
        unix.check_bindable(endpoint.address)


def check_directory(base: str, name: str) -> None:
    """Raise ConfigError if a route of this name can have no folder in a directory of pods."""
    unix.check_path(f"{base}/{check_name(name)}/sock")


def _check_named(endpoint: Endpoint) -> None:
    with naming(endpoint):
        unix.check_path(str(_folder(endpoint).socket))
    _check_access(endpoint)


def _dial(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    return lambda: unix.connect(endpoint.address, transport_limits(limits))


def _places(endpoint: Endpoint) -> tuple[Place, ...]:
    return ((endpoint.transport, os.path.realpath(endpoint.address)),)


def _folder(endpoint: Endpoint) -> PodFolder:
    return PodFolder(runtime_directory(), endpoint.address, listed=True)


async def _listen_named(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    folder = _folder(endpoint)
    await folder.open(lambda path: _listen_at(path, endpoint, limits, callbacks))
    return folder


def _dial_named(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    return lambda: unix.connect(str(_folder(endpoint).socket), transport_limits(limits))


def _places_named(endpoint: Endpoint) -> tuple[Place, ...]:
    return (("unix", os.path.realpath(_folder(endpoint).socket)),)


def pods(directory: Endpoint) -> Pods:
    """Return the pods of a checked upstream that is a directory of pods."""
    return Pods(directory, unix.alive)


UNIX = TransportSpec(
    listen=_listen,
    dial=_dial,
    listen_options=ACCESS | {"session", "fd"},
    check=_check_socket,
    check_place=_check_place,
    find_hazard=lambda endpoint: find_path_hazard(Path(endpoint.address)),
    places=_places,
    free="{folder}/sock",
)

APP_SERVER = structs.replace(UNIX, listen_options=ACCESS | {"fd"}, dial_options=frozenset({"cwd", "model"}))
"""The Unix socket of an app-server. Clients of other dialects cannot send its options (docs/design.md, section 5)."""

NAME = TransportSpec(
    listen=_listen_named,
    dial=_dial_named,
    listen_options=ACCESS | {"session"},
    check=_check_named,
    places=_places_named,
)

DIRECTORY = TransportSpec(
    dial=_dial,
    listen_options=ACCESS,
    check=_check_access,
    find_hazard=lambda endpoint: find_path_hazard(Path(endpoint.address) / "sock"),
    places=_places,
)
"""A directory of pods. The app opens a listener for each session; as a backend, each pod is dialled by its socket."""
