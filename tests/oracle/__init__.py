"""Oracles of legal orders: the messages that a client of each dialect may see on one connection, by docs/dialects
alone.
"""

from tests.oracle.base import Oracle, heard, told_as_said
from tests.oracle.codewhale import CodewhaleOracle
from tests.oracle.pando import PandoOracle
from tests.oracle.pod import PodOracle
from tests.oracle.smooth import SmoothOracle

__all__ = ["CodewhaleOracle", "Oracle", "PandoOracle", "PodOracle", "SmoothOracle", "heard", "told_as_said"]
