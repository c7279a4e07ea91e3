"""What stands in a recording where a secret stood: `[redacted:KIND:8 hex digits]`.

The digits are a keyed hash of the secret. With the salt of one recording equal secrets are equal in that recording and
nowhere else, so nobody who has a list of likely secrets can look them up; with a salt of the installation they are
equal in all of its recordings.
"""

from __future__ import annotations

import hmac
import re

from dragoman.gateway.recording.redaction.escapes import layers

__all__ = ["KIND", "PLACEHOLDER", "PLACEHOLDER_MAX", "PREFIX", "Placeholders"]

PREFIX = "[redacted:"
PLACEHOLDER = re.compile(r"\[redacted:[a-z0-9_]{1,32}:[0-9a-f]{8}\]")
PLACEHOLDER_MAX = len(PREFIX) + 32 + 1 + 8 + 1  # characters
KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""How a kind is written: it stands in placeholders, where nothing may need an escape."""


class Placeholders:
    """Placeholders under one salt."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def mark(self, kind: str, secret: str) -> str:
        """The placeholder of a secret, the same however many layers of escapes stand around it."""
        *_, innermost = layers(secret)
        digest = hmac.digest(self._salt, innermost.text.encode("utf-8", "surrogatepass"), "sha256")
        return f"{PREFIX}{kind}:{digest[:4].hex()}]"
