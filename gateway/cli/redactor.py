"""The redactor of the commands: rules of the default and of a configuration, and the salt of the placeholders."""

from __future__ import annotations

from pathlib import Path
from secrets import token_bytes

from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import Redact
from dragoman.gateway.recording.redaction.rules import EVER, RedactionRules, rules

WINDOW = 1 << 20  # characters of a text that are searched at once: unlike a live client, a command can wait


def redaction_rules(config_file: Path | None) -> tuple[RedactionRules, bytes]:
    """Return the rules for finding secrets, and the salt of the placeholders; without a file, those of the default."""
    wanted = Redact()
    if config_file is not None:
        recording = load(config_file, starts=False).recording
        wanted = recording.redact if recording is not None else wanted
    compiled = rules(wanted.patterns, wanted.paths, window_bytes=WINDOW, window_micros=EVER)
    return compiled, wanted.salt.encode() or token_bytes(16)
