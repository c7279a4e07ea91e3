"""Scripts of a client that has had, or still has, one turn with the pod of an in-memory gateway."""

from __future__ import annotations

from tests.gateway.in_memory import InMemoryGateway, Script
from tests.gateway.pod_messages import FINISHED, delta, run, took
from tests.gateway.smooth_client_messages import accepted, answer, send, token


def talked(made: InMemoryGateway, name: str = "a") -> Script:
    """Return a client that has sent Hi and received Hello."""
    return (
        made.opens(name)
        .sends(name, send("r1", "Hi"))
        .pod_receives(run("Hi"))
        .pod_sends(*took("Hi"), delta("Hello"), *FINISHED)
        .receives(name, accepted("r1"), token("r1", "Hello"), answer("r1", "Hello"))
    )


def begun(made: InMemoryGateway, text: str = "") -> Script:
    """Return a client `a` whose turn r1 runs, and has streamed `text` if there is any."""
    script = made.opens("a").submits("a", "r1", "Hi")
    if not text:
        return script.pod_sends(*took("Hi")).receives("a", accepted("r1"))
    return script.pod_sends(*took("Hi"), delta(text)).receives("a", accepted("r1"), token("r1", text))
