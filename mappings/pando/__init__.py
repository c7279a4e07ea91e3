"""The pando dialect: ZeroMQ between the instances of a coding agent, of which one is the primary
(docs/dialects/pando.md).
"""

from functools import partial

from msgspec.structs import replace

from dragoman.mappings.codec import part_size
from dragoman.mappings.dialect import CommandCost, Dialect
from dragoman.mappings.pando.directions import FROM_CLIENT, FROM_SERVER
from dragoman.mappings.pando.from_canonical.replies import public_ids
from dragoman.mappings.pando.projection import Projection
from dragoman.mappings.pando.translator.client import ClientTranslator
from dragoman.mappings.pando.translator.publication import PublicationTranslator
from dragoman.mappings.pando.translator.server import ServerTranslator
from dragoman.mappings.pando.vocabulary import keep
from dragoman.mappings.pando.wire.requests import StoredMessage

__all__ = ["DIALECT"]

DIALECT: Dialect = Dialect(
    name="pando",
    generations=("HEAD",),
    events=FROM_SERVER,
    commands=FROM_CLIENT,
    server=ServerTranslator,
    client=ClientTranslator,
    projection=Projection,
    public_ids=public_ids,
    cost=CommandCost(work=2, inputs=(b'"message.send"',), large_part=part_size(StoredMessage)),
    lost_turn="goes_on",
    lists_calls=False,
    session_ref=lambda name: keep(id=name),
    publication=PublicationTranslator,
    served=lambda instance: replace(  # the dialect of one listener, which speaks as `instance`
        DIALECT,
        server=partial(ServerTranslator, instance=instance),
        projection=partial(Projection, instance=instance),
        publication=partial(PublicationTranslator, instance=instance),
    ),
    stores_history=True,
)
