"""The two paths of a lone token, compared in a running gateway for each pair: a TextStream, and the general path.

The short path is spied on where it reads a backend's frame, and where it writes the frames of the clients. The same
piece then takes the general path, with copies of the translator and of the projection in the state of that moment.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.intake import FrameIntake
from dragoman.gateway.session.groups import Groups
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta
from dragoman.mappings.dialect import DeltaType, Frame, StreamedBlock, TextSink, TextWriter
from tests.gateway.test_calls import WARM, demo_in_a_thread
from tests.pairs.gateway import bridged
from tests.pairs.table import LISTEN, PAIRS
from tests.pairs.turn_clients import join


class BothPaths:
    """The results of both paths for each piece, as pairs: the short path first, then the general path."""

    def __init__(self) -> None:
        self.written: list[tuple[list[bytes], list[bytes]]] = []
        self.read: list[tuple[Any, Any]] = []

    def spy_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Compare both paths in every session and link of this thread's gateway; the demo backend has another."""
        open_text, stream_text, ours = Groups.open_text, FrameIntake.stream_text, get_ident()

        def open_spied(groups: Groups, turn: OpenTurn, delta: DeltaType) -> None:
            open_text(groups, turn, delta)
            if get_ident() == ours and groups.text is not None and groups.text.open:
                groups.text._writers = list(self._spied_writers(groups))

        def stream_spied(intake: Any, block: StreamedBlock | None) -> None:
            stream_text(intake, block)
            if get_ident() != ours:
                return
            read = intake._read_text

            def read_both(frame: Frame, sink: TextSink) -> bool:
                return self._read_both(intake._receive.__self__, read, frame, sink)

            intake._read_text = read_both

        monkeypatch.setattr(Groups, "open_text", open_spied)
        monkeypatch.setattr(FrameIntake, "stream_text", stream_spied)

    def _spied_writers(self, groups: Groups) -> Iterator[TextWriter]:
        assert groups.text is not None
        state = groups._context.state
        batch = groups._log._batches[-1].batch  # `batches_from` would close the stream
        delta = groups.text.delta
        for write, group in zip(groups.text._writers, groups.by_key.values(), strict=True):

            def write_both(
                text: str, at: int, write: TextWriter = write, projection: Any = group.projection
            ) -> list[bytes]:
                piece = structs.replace(batch, first_seq=state.seq, events=[delta(text=text)], at=at)
                general = projection.copy().render(piece).frames
                frames = write(text, at)
                self.written.append((frames, general))
                return frames

            yield write_both

    def _read_both(self, translator: Any, read: Any, frame: Frame, sink: TextSink) -> bool:
        twin = copy.deepcopy(translator)
        pieces: list[tuple[str, int, str]] = []

        def take(text: str, at: int, session: str = "") -> bool:
            pieces.append((text, at, session))
            return sink(text, at, session)

        taken: bool = read(frame, take)
        if taken:
            bursts = twin.receive([frame]).bursts
            self.read.append(
                (pieces, [(item.text, burst.at, burst.session) for burst in bursts for item in burst.items])
            )
        return taken


@pytest.mark.parametrize(("client", "backend"), PAIRS)
async def test_further_text_of_any_pair_is_read_and_written_as_on_the_general_path(
    client: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await compare_paths(client, backend, TextDelta, tmp_path, monkeypatch)


@pytest.mark.parametrize(("client", "backend"), [(c, b) for c, b in PAIRS if {c, b} <= {"smooth", "pod"}])
async def test_further_reasoning_is_read_and_written_as_on_the_general_path(
    client: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await compare_paths(client, backend, ReasoningDelta, tmp_path, monkeypatch)


async def compare_paths(
    client: str, backend: str, delta: DeltaType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stream pieces of this type through the pair, and compare both paths of each."""
    both = BothPaths()
    for name in ("backend", "own"):
        (tmp_path / name).mkdir()
    listen = LISTEN[client].format(folder=tmp_path / "own")
    async with demo_in_a_thread(
        LISTEN[backend].format(folder=tmp_path / "backend"), pause=0.01, delta=delta
    ) as upstream:
        both.spy_on(monkeypatch)
        async with bridged(upstream, listen=listen) as (_app, url), join(client, url) as peer:
            await peer.begin("stream", tokens=0)
            await peer.client.until(lambda: min(len(both.written), len(both.read)) >= WARM)
            await peer.cancel()
            await peer.finish()
    assert [short for short, _ in both.written] == [general for _, general in both.written]
    assert [short for short, _ in both.read] == [general for _, general in both.read]
