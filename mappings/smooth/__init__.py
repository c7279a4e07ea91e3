"""The smooth dialect: JSON over WebSocket between chat clients and servers of smooth-operator
(docs/dialects/smooth.md).
"""

from dragoman.mappings.codec import part_size
from dragoman.mappings.dialect import CommandCost, Dialect
from dragoman.mappings.smooth.directions import FROM_CLIENT, FROM_SERVER
from dragoman.mappings.smooth.from_canonical.commands import changes_conversation
from dragoman.mappings.smooth.from_canonical.replies import public_ids
from dragoman.mappings.smooth.projection import Projection
from dragoman.mappings.smooth.translator.client import ClientTranslator
from dragoman.mappings.smooth.translator.server import ServerTranslator
from dragoman.mappings.smooth.vocabulary import GENERATIONS
from dragoman.mappings.smooth.wire.actions import Attachments

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="smooth",
    generations=GENERATIONS,
    events=FROM_SERVER,
    commands=FROM_CLIENT,
    server=ServerTranslator,
    client=ClientTranslator,
    projection=Projection,
    public_ids=public_ids,
    has_request_ids=True,
    cost=CommandCost(inputs=(b'"send_message"',), large_part=part_size(Attachments)),
    takes_images=True,
    stores_history=True,
    cancels_own_turns=True,
    resumes_unknown=True,
    lost_turn="reachable",
    renames_listed=True,
    changes_session=changes_conversation,
)
