"""Backends of the four dialects that play what was recorded of one."""

from tests.players.played.backend import PlayedBackend
from tests.players.played.codewhale import PlayedWhale
from tests.players.played.pando import PlayedPando
from tests.players.played.pod import PlayedPod
from tests.players.played.smooth import PlayedSmooth

__all__ = ["BACKENDS", "PlayedBackend"]

BACKENDS: dict[str, type[PlayedBackend]] = {
    "smooth": PlayedSmooth,
    "pod": PlayedPod,
    "pando": PlayedPando,
    "codewhale": PlayedWhale,
}
