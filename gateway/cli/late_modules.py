"""Import what a running gateway may need only after a reload, a fault or a request of an operator.

`serve` may run for months, while its package is upgraded or removed. A module that is imported after that is missing,
or comes from another version than the rest. So everything is imported before the gateway listens. The extra `jwt` is
the exception, because it takes 10 MiB.
"""

from __future__ import annotations

from importlib import import_module

from dragoman.gateway import registry

MODULES = (
    "ctypes",
    "dragoman.gateway.ops.metrics",
    "dragoman.gateway.ops.openapi",
    "dragoman.gateway.ops.server",
    "dragoman.gateway.recording.recorder",
    "dragoman.gateway.recording.recordings",
    "dragoman.gateway.recording.redaction.paths",
    "dragoman.gateway.recording.redaction.rules",
    "dragoman.gateway.replay.conversation",
    "dragoman.gateway.replay.live",
    "dragoman.gateway.replay.options",
    "dragoman.gateway.replay.playing",
    "zmq.auth.asyncio",
)
"""The modules that functions of a gateway import, beside dialects and transports."""


def import_late_modules() -> None:
    """Import all dialects and transports, and everything else that a gateway imports late."""
    registry.import_all()
    for name in MODULES:
        import_module(name)
