"""Newline-delimited frames over stdin and stdout: of child processes (`Children`) and of this process (`listen`).

child             the children of the gateway as peers, bounded in number
process           one child, from its start to its end
stderr_tail       the last lines that it wrote to stderr
own               our own stdin and stdout as a peer
stream            the two pipes of either kind as one transport
ends              one pipe on the event loop
watchdog          ends the children if the gateway is killed
watchdog_program  the process that does it
"""

from dragoman.adapters.stdio.child import Children, ChildTransport
from dragoman.adapters.stdio.own import OwnTransport, listen
from dragoman.adapters.stdio.process import ChildLimits, ChildSettings

__all__ = ["ChildLimits", "ChildSettings", "ChildTransport", "Children", "OwnTransport", "listen"]
