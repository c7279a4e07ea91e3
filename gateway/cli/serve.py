"""`dragoman serve`: serve every route of a configuration file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.gateway.app import App
from dragoman.gateway.cli.options import ExitOnBackendLoss, LogContent, LogJson, LogLevel
from dragoman.gateway.cli.running import run, serve_until_signalled, set_up
from dragoman.gateway.config.check import check
from dragoman.gateway.observability import logs

EXAMPLES = ("dragoman serve --config config.toml", "dragoman serve --config config.toml --watch --log-json")


def serve(
    config_file: Annotated[Path, typer.Option("--config", metavar="FILE", help="The configuration file (TOML).")],
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Reload the configuration when its file changes."),
    ] = False,
    exit_on_backend_loss: ExitOnBackendLoss = False,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
    log_content: LogContent = False,
) -> None:
    """Run the gateway with a configuration file; `dragoman config example` shows every key of it.

    Prints `listening ENDPOINT` on stderr when a listener accepts connections. Reports errors in the configuration as
    `dragoman check` does, and exits 2. On SIGTERM, open turns can finish; then the clients are notified and the exit
    code is 0.

    SIGHUP reloads the configuration, and with --watch each change of the file. A reload affects only what has changed:
    other listeners keep their clients, and open sessions keep their settings. A file with an error changes nothing.
    """
    set_up(log_level, log_json, log_content)
    checked = check(config_file)
    app = App(checked.valid_config())
    for warning in checked.problems:
        logs.write_line(str(warning), sys.stderr)
    run(serve_until_signalled(app, file=config_file, watch=watch, exit_on_backend_loss=exit_on_backend_loss))
