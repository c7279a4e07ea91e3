"""Backends of the four dialects that play recordings."""

from tests.players.captured.backend import CapturedBackend
from tests.players.captured.codewhale import CapturedCodewhale
from tests.players.captured.pando import CapturedPando
from tests.players.captured.pod import CapturedPod
from tests.players.captured.smooth import CapturedSmoothServer

__all__ = ["BACKENDS", "CapturedBackend"]

BACKENDS: dict[str, type[CapturedBackend]] = {
    "smooth": CapturedSmoothServer,
    "pod": CapturedPod,
    "pando": CapturedPando,
    "codewhale": CapturedCodewhale,
}
