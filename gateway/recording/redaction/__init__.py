"""Secrets stay out of recordings (docs/design.md, section 8): pure, without files, clock or randomness.

redactor              lines on their way into the file   blocks         streamed text, held back and given out again
frame_redactor        frames                           field_texts    their texts, put together by field
values, rows          events and commands, and JSON in them
credentials           what no recording ever holds       finder         secrets in a text
escapes               layers of JSON strings in it       detectors      what a shape of secrets is
shapes, assignments   the built-in ones                  rules, paths   the user's own
placeholders, ledger  what is left of a secret           spans          where secrets stand
shown                 texts in logs and samples
"""

from dragoman.gateway.recording.redaction.ledger import Entry, Found, Ledger
from dragoman.gateway.recording.redaction.paths import parse as json_path
from dragoman.gateway.recording.redaction.placeholders import PLACEHOLDER
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import EVER, Rules, pattern, rules

__all__ = ["EVER", "PLACEHOLDER", "Entry", "Found", "Ledger", "Redactor", "Rules", "json_path", "pattern", "rules"]
