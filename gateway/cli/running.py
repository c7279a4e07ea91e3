"""How a command that serves runs: an event loop, logs on stderr, signals that end it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from dragoman.gateway import logs
from dragoman.gateway.app import App
from dragoman.mappings.errors import ConfigError

__all__ = ["AsJson", "LogJson", "LogLevel", "run", "serve_until_signalled", "set_up"]

LogLevel = Annotated[str, typer.Option("--log-level", metavar="LEVEL", help=f"One of {', '.join(logs.LEVELS)}.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Logs as JSON lines.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")]


def set_up(log_level: str, log_json: bool) -> None:
    """Logs as the user wants them, and no other distribution in the way of ours."""
    if log_level not in logs.LEVELS:
        raise ConfigError(f"--log-level {log_level!r}: write one of {', '.join(logs.LEVELS)}")
    logs.configure(log_level, as_json=log_json)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work`, on uvloop where it is installed (docs/performance.md: 0.85x CPU), else on asyncio's own
    loop.
    """
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(work)
    except asyncio.CancelledError:
        raise typer.Exit(1) from None  # the second signal: ended before everything was told
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a TaskGroup: the first one that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def serve_until_signalled(gateway: App) -> None:
    """Run an app until SIGTERM or SIGINT; each listener is a line on stderr once it accepts."""
    gateway.on_signals()
    await gateway.run(lambda endpoint: logs.tell(f"listening {endpoint}", sys.stderr))
