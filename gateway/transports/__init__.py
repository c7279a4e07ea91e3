"""How each transport is listened on and dialled, for the endpoints of the dialects that go with it.

One module a transport, each with what registry.py puts into its table: a Way. Only here and in registry.py are adapters
named.
"""
