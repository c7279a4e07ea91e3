"""Newline-delimited frames over stdin and stdout: of child processes (`Children`) and of this process (`listen`)."""

from dragoman.adapters.stdio.child import Children, ChildTransport
from dragoman.adapters.stdio.own import OwnTransport, listen
from dragoman.adapters.stdio.process import ChildLimits, ChildSettings

__all__ = ["ChildLimits", "ChildSettings", "ChildTransport", "Children", "OwnTransport", "listen"]
