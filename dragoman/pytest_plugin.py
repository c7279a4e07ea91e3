"""Recordings in tests: fixtures for pytest, which loads this module by the entry point group `pytest11`.

    dragoman_replay   serves a recording as a backend; a command that is not in the recording fails the test
    dragoman_drive    sends the recorded inputs to a live backend; a different answer fails the test

The module imports the rest of dragoman only when a test uses one of them, and dragoman never imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from dragoman.gateway.replay.driving import Driven
    from dragoman.gateway.replay.standalone import Served


class Replay(Protocol):
    """Serves a recording until the test ends."""

    def __call__(self, recording: str | Path, listen: str, *, strict: bool = True, **options: str) -> Served:
        """Serve at `listen`, an endpoint, or a dialect for a free place; `options` are those of `replay+file:`.

        The default `speed` is instant. With `strict` the test fails if a client sent a command that is not in the
        recording, or if no client sent any command.
        """


class Drive(Protocol):
    """Sends the inputs of a recording to a live backend."""

    def __call__(
        self, recording: str | Path, upstream: str, *, deadline: float = 60.0, ignore_inexpressible: bool = False
    ) -> Driven:
        """Fail the test with the differences if the backend at endpoint `upstream` answers otherwise than recorded.

        With `ignore_inexpressible` only events are compared that both dialects can express.
        """


@pytest.fixture
def dragoman_replay() -> Iterator[Replay]:
    """Serve a recording as a backend in a dialect of your choice: `dragoman_replay(FILE, "smooth").url`."""
    from dragoman.gateway.replay import standalone  # for tests that ask for it alone

    watched: list[Served] = []
    awaited: list[tuple[str | Path, Served]] = []
    with ExitStack() as stack:

        def serve(recording: str | Path, listen: str, *, strict: bool = True, **options: str) -> Served:
            # pytest's own folders are named after the test: a socket's path has at most 107 bytes
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="dragoman-")))
            options.setdefault("speed", "instant")
            with _failing():
                endpoint = standalone.listen_endpoint(listen, folder)
                served = stack.enter_context(standalone.served(Path(recording), endpoint, **options))
            if strict:
                watched.append(served)
                if options.get("auto") != "yes":  # such a replay takes no commands
                    awaited.append((recording, served))
            return served

        yield serve
    lines = [line for served in watched for line in served.divergences]
    if lines:
        pytest.fail("sent and not recorded:\n" + "\n".join(lines), pytrace=False)
    for recording, served in awaited:
        if not served.asked:
            pytest.fail(f"no client sent a command to the replay of {recording}", pytrace=False)


@pytest.fixture
def dragoman_drive() -> Drive:
    """Send the recorded inputs to a live backend: `dragoman_drive(FILE, "pod+unix:PATH")`."""
    from dragoman.gateway.replay import standalone  # for tests that ask for it alone

    def drive(
        recording: str | Path, upstream: str, *, deadline: float = 60.0, ignore_inexpressible: bool = False
    ) -> Driven:
        with _failing():
            driven = standalone.drive_file(
                Path(recording), upstream, deadline, ignore_inexpressible=ignore_inexpressible
            )
        if not driven.same:
            pytest.fail(f"{upstream} answers otherwise than {recording} (-):\n{driven}", pytrace=False)
        return driven

    return drive


@contextmanager
def _failing() -> Iterator[None]:
    """Fail the test with the words of an error that its author can mend; our own traceback would hide them."""
    from dragoman.mappings.errors import DragomanError  # for tests that ask for a fixture

    try:
        yield
    except (DragomanError, OSError) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
