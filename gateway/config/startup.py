"""Find the dangers and defects of a configuration that starts to be served; none of them ends the gateway.

`find_hazards` looks at this machine alone: programs, folders, addresses. gateway/config/probe.py then
tries to reach the backends.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile

from dragoman.gateway import registry
from dragoman.gateway.config.access import is_public
from dragoman.gateway.config.local_sockets import find_path_hazard, find_socket_hazard
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import Endpoint, Place
from dragoman.gateway.identity.listeners import authenticates
from dragoman.gateway.recording.places import folder_of
from dragoman.gateway.transports.child_settings import child_settings

FREE_MIN = 1024 * 1024  # bytes: a second of a busy stream


def find_hazards(config: Config) -> Iterator[str]:
    """Yield one line for each listener or route that is not safe, missing program and place that cannot be written."""
    yield from _find_shared_pods(config.routes)
    for route in config.routes:
        for endpoint in route.listen:
            if is_public(endpoint) and not authenticates(endpoint, config.auth):
                yield f"{endpoint.masked} accepts clients from other machines without authentication"
            if not config.given and (why := find_socket_hazard(endpoint)):  # else the check of the file has said so
                yield why
        for upstream in route.upstreams:
            if upstream.is_command and (why := find_missing_program(route, upstream, config)):
                yield why
    if config.ops is not None and config.ops.listen.startswith("unix:"):
        yield from filter(None, [find_path_hazard(Path(config.ops.listen.removeprefix("unix:")))])
    if config.recording is not None and (reason := why_unwritable(config.recording.path)):
        yield f"recordings cannot be written to {config.recording.path}: {reason}"


def _find_shared_pods(routes: Iterable[Route]) -> Iterator[str]:
    """Yield one line for each further route to a pod whose session has an owner: it has another one on each route."""
    first: dict[Place, Route] = {}
    for route in routes:
        dialled = filter(registry.is_dialled, route.upstreams)
        pods = [upstream for upstream in dialled if registry.upstream(upstream).single_session]
        for place in chain.from_iterable(map(registry.places, pods)):
            other = first.setdefault(place, route)
            if other is not route and any(one.share == "owner" and one.open == "busy" for one in (other, route)):
                names = f"routes {other.name!r} and {route.name!r}"
                yield (
                    f"{names} lead to one pod, so a client of one can use what a client of the other owns; "
                    "write one route with the listeners of both"
                )


def find_missing_program(route: Route, upstream: Endpoint, config: Config) -> str:
    """Return why the program of a child cannot be started, or "". A name is searched in the PATH of the child.

    A relative path is not checked, because it depends on the folder of the child.
    """
    program = shlex.split(upstream.address)[0]
    is_name, is_absolute = "/" not in program, program.startswith("/")
    env = child_settings(route, inherit=config.inherit_env).env
    if not (is_name or is_absolute) or shutil.which(program, path=env.get("PATH")):
        return ""
    if is_name:
        return f"{upstream.masked}: no such program in PATH; install it, or write its full path"
    exists = os.path.isfile(program)
    return f"{upstream.masked}: {'not executable; use chmod +x' if exists else 'no such program; check its path'}"


def why_unwritable(text: str) -> str:
    """Return why no file can be written in the folder of the recordings, or ""."""
    folder = Path(os.path.realpath(folder_of(text)))
    existing: Path = next(path for path in (folder, *folder.parents) if path.is_dir())
    try:
        with TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
            return "" if free >= FREE_MIN else f"only {free} bytes are free, and {FREE_MIN} are needed"
    except OSError as error:
        return error.strerror or str(error)
