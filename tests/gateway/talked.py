"""A script of a client that has had one turn with the pod of an in-memory gateway."""

from __future__ import annotations

from tests.gateway.in_memory import InMemoryGateway, Script
from tests.gateway.pod_messages import FINISHED, delta, run, took
from tests.gateway.smooth_client_messages import accepted, answer, send, token


def talked(made: InMemoryGateway, name: str = "a") -> Script:
    """Return a client that has sent Hi and received Hello."""
    return (
        made.script()
        .opens(name)
        .sends(name, send("r1", "Hi"))
        .pod_receives(run("Hi"))
        .pod_sends(*took("Hi"), delta("Hello"), *FINISHED)
        .receives(name, accepted("r1"), token("r1", "Hello"), answer("r1", "Hello"))
    )
