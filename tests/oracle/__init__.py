"""Oracles of legal orders: what a client of each dialect may see on one connection, by the sheets alone."""

from tests.oracle.base import Oracle, heard
from tests.oracle.codewhale import CodewhaleOracle
from tests.oracle.pod import PodOracle
from tests.oracle.smooth import SmoothOracle

__all__ = ["ORACLES", "CodewhaleOracle", "Oracle", "PodOracle", "SmoothOracle", "heard"]

ORACLES: dict[str, type[PodOracle] | type[SmoothOracle] | type[CodewhaleOracle]] = {
    "pod": PodOracle,
    "smooth": SmoothOracle,
    "codewhale": CodewhaleOracle,
}
