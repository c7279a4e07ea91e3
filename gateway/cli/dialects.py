"""`dragoman dialects`: list the dialects and the transports of each."""

from __future__ import annotations

from dragoman.gateway import registry
from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json, print_table

EXAMPLES = ("dragoman dialects --json",)


def dialects(as_json: AsJson = False) -> None:
    """List the dialects, and the endpoints that each can listen on or connect to."""
    rows = [
        {
            "dialect": d.name,
            "generations": list(d.generations),
            "listen": registry.forms(d.name, listen=True),
            "connect": registry.forms(d.name, listen=False),
        }
        for d in registry.dialects().values()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(("dialect", "generations", "listen", "connect"), rows)
