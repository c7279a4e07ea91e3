"""The endpoints of each transport: how the gateway listens on them and connects to them.

Each module defines a TransportSpec for gateway/registry.py. No other module of the gateway imports an adapter by its
transport.
"""

from dragoman.adapters.stdio import Children, ChildSettings, ChildTransport

__all__ = ["ChildSettings", "ChildTransport", "Children"]
