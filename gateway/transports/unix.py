"""`unix:` endpoints, and those of pods: `name:` in the runtime directory, and `dir:` for many pods."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from dragoman.adapters import unix
from dragoman.adapters.base import Listener
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.pods.folder import PodFolder, check_name, runtime_directory
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.transports.spec import (
    Connect,
    ListenerCallbacks,
    Place,
    Spawner,
    TransportSpec,
    transport_limits,
)

__all__ = ["APP_SERVER", "DIRECTORY", "NAME", "UNIX", "bind_socket", "check_bindable", "pods"]

bind_socket, check_bindable = unix.bind_socket, unix.check_bindable


async def _listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    return await unix.listen(endpoint.address, transport_limits(limits), callbacks.accept)


def _dial(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    return lambda: unix.connect(endpoint.address, transport_limits(limits))


def _place(endpoint: Endpoint) -> Place:
    return endpoint.transport, str(Path(endpoint.address).resolve())


def _folder(endpoint: Endpoint) -> PodFolder:
    return PodFolder(runtime_directory(), endpoint.address)


async def _listen_named(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    folder = _folder(endpoint)
    await folder.open(lambda path: unix.listen(path, transport_limits(limits), callbacks.accept))
    return folder


def _dial_named(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    return lambda: unix.connect(str(_folder(endpoint).socket), transport_limits(limits))


def _place_named(endpoint: Endpoint) -> Place:
    return "unix", str(_folder(endpoint).socket.resolve())


def pods(endpoint: Endpoint) -> Pods | None:
    """Return the pods of a checked upstream that is a directory of pods; None for any other upstream."""
    return Pods(endpoint, unix.alive) if (endpoint.dialect, endpoint.transport) == ("pod", "dir") else None


UNIX = TransportSpec(
    listen=_listen,
    dial=_dial,
    listen_options=frozenset({"session"}),
    check=lambda endpoint: unix.check_path(endpoint.address),
    check_place=lambda endpoint: unix.check_bindable(endpoint.address),
    place=_place,
    owner_only=True,
)

APP_SERVER = structs.replace(UNIX, listen_options=frozenset(), dial_options=frozenset({"cwd", "model"}))
"""The Unix socket of an app-server. Clients of other dialects cannot send its options (docs/design.md, section 5)."""

NAME = TransportSpec(
    listen=_listen_named,
    dial=_dial_named,
    listen_options=frozenset({"session"}),
    check=lambda endpoint: check_name(endpoint.address),
    place=_place_named,
    owner_only=True,
)

DIRECTORY = TransportSpec(dial=_dial, place=_place, owner_only=True)
"""A directory of pods. The app opens a listener for each session; as a backend, each pod is dialled by its socket."""
