"""The record of the dialect, as it is and as the listener with one identity speaks it."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from dragoman.mappings.dialect import Dialect, Instance
from dragoman.mappings.pando.directions import FROM_CLIENT, FROM_PRIMARY
from dragoman.mappings.pando.extras import keep
from dragoman.mappings.pando.from_canonical import shown
from dragoman.mappings.pando.projection import Projection
from dragoman.mappings.pando.translator import ClientTranslator, PublicationTranslator, ServerTranslator

__all__ = ["DIALECT"]


def served(instance: Instance) -> Dialect:
    """The dialect of one listener: what it publishes and answers is said by `instance`."""
    return replace(
        DIALECT,
        server=partial(ServerTranslator, instance=instance),
        projection=partial(Projection, instance=instance),
        publication=partial(PublicationTranslator, instance=instance),
    )


DIALECT = Dialect(
    name="pando",
    generations=("HEAD",),
    events=FROM_PRIMARY,
    commands=FROM_CLIENT,
    server=ServerTranslator,
    client=ClientTranslator,
    projection=Projection,
    shown=shown,
    addressed=False,
    one_session=False,
    turn_outlives_connection=True,
    tells_calls=False,
    named=lambda name: keep(id=name),
    publication=PublicationTranslator,
    served=served,
    stores_history=True,
)
