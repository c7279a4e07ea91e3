"""Choose the route of a launched program by environment variables, because its client passes none of our arguments.

$DRAGOMAN_CONFIG names a configuration file, and $DRAGOMAN_ROUTE one of its routes (default: the first). The route's
upstream and options apply. Its listeners belong to the gateway, and it needs none.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import uvloop
from msgspec import structs

from dragoman import __version__
from dragoman.gateway.config import check
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.config.source import expand_home
from dragoman.gateway.observability import logs
from dragoman.gateway.overload import descriptors
from dragoman.gateway.process.runtime import configure_interpreter, return_free_memory, start_threads
from dragoman.mappings.errors import ConfigError, DragomanError, first_error


def make_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of the arguments of `dragoman-PROGRAM`, which has only `--version` so far."""
    parser = argparse.ArgumentParser(
        prog=f"dragoman-{program}",
        description=f"Run a gateway in place of a {program}. DRAGOMAN_CONFIG names its configuration file, "
        "and DRAGOMAN_ROUTE one of its routes (default: the first).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    return parser


def choose_route(environment: Mapping[str, str]) -> tuple[Config, Route]:
    """Return the configuration and the selected route; raise ConfigError if a setting is missing."""
    path = environment.get("DRAGOMAN_CONFIG")
    if not path:
        raise ConfigError("set DRAGOMAN_CONFIG to a configuration file, whose first route is served")
    whole = check.load(Path(expand_home(path)), listens=False)
    wanted = environment.get("DRAGOMAN_ROUTE")
    route = next((route for route in whole.routes if wanted in (None, "", route.name)), None)
    if route is None:
        names = ", ".join(route.name for route in whole.routes)
        raise ConfigError(f"{path}: DRAGOMAN_ROUTE is {wanted!r}, but the routes are {names}")
    return structs.replace(whole, inherit_env=True), route  # the user's own shell starts the program


def run_program(serve: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    """Run until stopped, then exit: 0 success, 1 failure, 2 bad usage or configuration."""
    configure_interpreter()
    logs.configure("warning")
    try:
        descriptors.raise_limit()
        work = serve()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(work))
    except asyncio.CancelledError:
        sys.exit(1)  # a second signal cancels the work
    except (DragomanError, OSError, BaseExceptionGroup) as error:
        cause = first_error(error)
        if not isinstance(cause, DragomanError | OSError):
            raise
        logs.write_line(f"error: {logs.escaped(str(cause))}", sys.stderr)
        sys.exit(2 if isinstance(cause, ConfigError) else 1)
    sys.exit(0)


async def _run(work: Coroutine[Any, Any, None]) -> None:
    with closing(work):  # it never begins if the system refuses threads
        await start_threads()
        async with asyncio.TaskGroup() as group:
            heap = group.create_task(return_free_memory(), name="heap")
            try:
                await work
            finally:
                heap.cancel()
