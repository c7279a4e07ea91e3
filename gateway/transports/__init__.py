"""The endpoints of each transport: how the gateway listens on them and connects to them.

Each module defines a TransportSpec for gateway/registry.py. No other module of the gateway imports an adapter by its
transport.

spec       the interface, TransportSpec               websocket      `ws:` and `wss:`
unix       `unix:`, and `name:` and `dir:` of pods    stdio          `stdio:`, with child_settings
zeromq     `tcp:`, and `dir:` of a pando project      pando_project  ports, lock and registry of that project
curve      the keys of `tcp:`                         file           `file:`, a recording
"""

from dragoman.adapters.stdio import Children, ChildSettings, ChildTransport

__all__ = ["ChildSettings", "ChildTransport", "Children"]
