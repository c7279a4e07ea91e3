"""Newline-delimited frames over stdin and stdout: of child processes (`Children`) and of this process (`listen`).

child        children as peers, bounded in number     own          our own stdin and stdout
process      a child from its spawn to its end        stderr_tail  its last lines of stderr
stream       two ends of pipes as one transport       ends         an end of a pipe on the event loop
watchdog     ends the children of a killed gateway, by watchdog_program, a process of its own
"""

from dragoman.adapters.stdio.child import Children, ChildTransport
from dragoman.adapters.stdio.own import OwnTransport, listen
from dragoman.adapters.stdio.process import ChildLimits, ChildSettings

__all__ = ["ChildLimits", "ChildSettings", "ChildTransport", "Children", "OwnTransport", "listen"]
