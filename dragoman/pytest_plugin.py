"""Recordings in tests: fixtures for pytest, which loads this module by the entry point group `pytest11`.

    dragoman_replay   serves a recording as a backend; what a client says that is not in it fails the test
    dragoman_drive    says a recording to a live backend; where that does otherwise the test fails with the difference

Nothing else of dragoman is imported before a test asks for one of them, and dragoman never imports this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from dragoman.gateway.replay.driving import Driven
    from dragoman.gateway.replay.standalone import Served

__all__ = ["Drive", "Replay", "dragoman_drive", "dragoman_replay"]


class Replay(Protocol):
    """Serves a recording until the test ends."""

    def __call__(self, recording: str | Path, listen: str, *, strict: bool = True, **options: str) -> Served:
        """`listen` is an endpoint, or a dialect alone for a free place of it; `options` as in `replay+file:`.

        Without `speed` it is instant. With `strict` the test fails if anything was said that is not in the recording.
        """


class Drive(Protocol):
    """Says a recording to a live backend."""

    def __call__(self, recording: str | Path, upstream: str, *, deadline: float = 60.0) -> Driven:
        """The test fails with the difference if the backend at endpoint `upstream` does otherwise than recorded."""


@pytest.fixture
def dragoman_replay() -> Iterator[Replay]:
    """Serve a recording as a backend in a dialect of your choice: `dragoman_replay(FILE, "smooth").url`."""
    from dragoman.gateway.replay import standalone  # for tests that ask for it alone

    watched: list[Served] = []
    with ExitStack() as stack:

        def serve(recording: str | Path, listen: str, *, strict: bool = True, **options: str) -> Served:
            # pytest's own folders are named after the test: a socket's path has at most 107 bytes
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="dragoman-")))
            endpoint = standalone.listen_endpoint(listen, folder)
            options.setdefault("speed", "instant")
            served = stack.enter_context(standalone.served(Path(recording), endpoint, **options))
            if strict:
                watched.append(served)
            return served

        yield serve
    lines = [line for served in watched for line in served.divergences]
    if lines:
        pytest.fail("said and not recorded:\n" + "\n".join(lines), pytrace=False)


@pytest.fixture
def dragoman_drive() -> Drive:
    """Say what clients said in a recording to a live backend: `dragoman_drive(FILE, "pod+unix:PATH")`."""
    from dragoman.gateway.replay import standalone  # for tests that ask for it alone

    def drive(recording: str | Path, upstream: str, *, deadline: float = 60.0) -> Driven:
        driven = standalone.driven(Path(recording), upstream, deadline)
        if not driven.same:
            pytest.fail(f"{upstream} does otherwise than {recording} (-):\n{driven}", pytrace=False)
        return driven

    return drive
