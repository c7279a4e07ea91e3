"""Spawners for tests: children get the environment of the tests."""

from __future__ import annotations

import os

from dragoman.adapters.stdio import Children, ChildSettings
from dragoman.gateway.transports.spec import Spawner


def spawner_of(children: Children) -> Spawner:
    """Return a spawner whose children get the whole environment."""
    return Spawner(children, ChildSettings(env=os.environ))
