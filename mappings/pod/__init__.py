"""The pod dialect: newline-delimited JSON of a coding agent and its clients (docs/dialects/pod.md)."""

from dragoman.mappings.dialect import CommandCost, Dialect
from dragoman.mappings.pod.directions import FROM_CLIENT, FROM_SERVER
from dragoman.mappings.pod.from_canonical.replies import render_snapshot
from dragoman.mappings.pod.projection import Projection
from dragoman.mappings.pod.translator.client import ClientTranslator
from dragoman.mappings.pod.translator.server import ServerTranslator

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="pod",
    generations=("seed",),
    events=FROM_SERVER,
    commands=FROM_CLIENT,
    server=ServerTranslator,
    client=ClientTranslator,
    projection=Projection,
    public_ids=lambda _session, _backend_ids: (),  # pod messages name no session
    cost=CommandCost(work=2, inputs=(b'"run"',)),
    single_session=True,
    lost_turn="goes_on",
    render_history=render_snapshot,
)
