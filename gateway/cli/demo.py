"""`dragoman demo`: a conversation of four clients with one backend, in this process."""

from __future__ import annotations

from rich.console import Console

from dragoman.gateway.cli.running import run
from dragoman.gateway.demo.conversation import demo as play_demo
from dragoman.gateway.observability import logs

EXAMPLES = ("dragoman demo",)


def demo() -> None:
    """Show clients of all four dialects talking to one backend through the gateway; needs nothing else."""
    logs.configure("error")
    run(play_demo(Console(highlight=False)))
