"""Arguments and options that several commands have, with the same words in every help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.gateway.observability import logs

DURATION_MAX = 31_536_000  # seconds: a year, longer than any wait or recording; the clock of a system ends somewhere

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
ExitOnBackendLoss = Annotated[
    bool,
    typer.Option(
        "--exit-on-backend-loss",
        help="Exit with 1 if a connected backend is lost for longer than `reconnect_grace`.",
    ),
]
Deadline = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, max=DURATION_MAX, help="The timeout for each turn.")
]
LogLevel = Annotated[
    logs.Level, typer.Option("--log-level", metavar="LEVEL", help=f"The lowest level to log: {', '.join(logs.LEVELS)}.")
]
LogContent = Annotated[
    bool,
    typer.Option(
        "--log-content", help="At the level debug, log the text of inputs, tools and answers, without secrets."
    ),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write logs as JSON lines.")]
RecordingFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A recording: its file, any part of it, or its folder.")
]
RedactConfig = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Also apply \\[recording.redact] of this configuration."),
]
OpsConfig = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The configuration file of the gateway; its \\[ops] names the port."),
]
OpsUrl = Annotated[
    str | None,
    typer.Option(
        "--ops",
        metavar="URL",
        envvar="DRAGOMAN_OPS",
        help="The ops port: http://HOST:PORT or unix:PATH; DRAGOMAN_OPS_TOKEN is its token.",
    ),
]
