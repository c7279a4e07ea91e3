"""The command line, by what a command is about.

program    the program: its commands, its errors and exit codes     serving     bridge, serve, check and the demos
running    an event loop for a command, logs, signals               filtering   translate
listing    dialects, matrix and schemas                             replaying   replay, drive
"""

from dragoman.gateway.cli.program import app, main

__all__ = ["app", "main"]
