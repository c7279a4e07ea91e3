"""How each transport is listened on and dialled, for the endpoints of the dialects that go with it.

Each module describes one transport with a TransportSpec, which gateway/registry.py puts into its table. No other module
of the gateway names an adapter by its transport.
"""
