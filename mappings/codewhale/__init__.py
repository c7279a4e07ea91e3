"""The codewhale dialect: JSON-RPC lines over stdio between editors and the app-server of a coding agent
(docs/dialects/codewhale.md).
"""

from dragoman.mappings.codec import part_size
from dragoman.mappings.codewhale.directions import FROM_CLIENT, FROM_SERVER, Overheard
from dragoman.mappings.codewhale.from_canonical.commands import changes_thread, history_for_resume
from dragoman.mappings.codewhale.from_canonical.replies import public_ids
from dragoman.mappings.codewhale.projection import Projection
from dragoman.mappings.codewhale.translator.client import ClientTranslator
from dragoman.mappings.codewhale.translator.server import ServerTranslator
from dragoman.mappings.codewhale.vocabulary import GENERATIONS
from dragoman.mappings.codewhale.wire.requests import LargeRequest
from dragoman.mappings.dialect import CommandCost, Dialect

__all__ = ["DIALECT"]

WHY_LATE = (
    "from 0.10.2 on, codewhale runs one turn at a time for all sessions of its data directory. "
    "Try again after that turn, or give this route a CODEWHALE_HOME of its own"
)
"""The reason why a server may be late, and what to do (docs/dialects/codewhale.md, section 12)."""

DIALECT = Dialect(
    name="codewhale",
    generations=GENERATIONS,
    events=FROM_SERVER,
    commands=FROM_CLIENT,
    server=ServerTranslator,
    client=ClientTranslator,
    projection=Projection,
    public_ids=public_ids,
    has_request_ids=True,
    cost=CommandCost(work=4, inputs=(b'"thread/message"',), large_part=part_size(LargeRequest)),
    lists_silent=True,
    answers_with_history=True,
    takes_images=True,
    why_late=WHY_LATE,
    lost_turn="kept",
    overheard=Overheard,
    takes_history=history_for_resume,
    changes_session=changes_thread,
)
