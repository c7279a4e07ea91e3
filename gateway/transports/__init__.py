"""The endpoints of each transport: how the gateway listens on them and connects to them.

Each module defines a TransportSpec for gateway/registry.py. No other module of the gateway imports an adapter by its
transport.

spec           the interface, TransportSpec
websocket      `ws:` and `wss:`
unix           `unix:`, and `name:` and `dir:` of pods
zeromq         `tcp:` and `dir:` of pando
pando_project  ports, lock and registry of the project that such a `dir:` names
curve          the keys of `tcp:`
stdio          `stdio:`, and the environment and limits of child processes
file           `file:`, a recording
"""

from dragoman.adapters.stdio import Children, ChildSettings, ChildTransport

__all__ = ["ChildSettings", "ChildTransport", "Children"]
