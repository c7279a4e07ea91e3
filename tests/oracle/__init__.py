"""Oracles of legal orders: what a client of each dialect may see on one connection, by the sheets alone."""

from tests.oracle.base import Oracle, heard
from tests.oracle.pod import PodOracle
from tests.oracle.smooth import SmoothOracle

__all__ = ["ORACLES", "Oracle", "PodOracle", "SmoothOracle", "heard"]

ORACLES: dict[str, type[PodOracle] | type[SmoothOracle]] = {"pod": PodOracle, "smooth": SmoothOracle}
