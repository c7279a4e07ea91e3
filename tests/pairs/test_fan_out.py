"""A session with clients of all dialects: the first answer, clients that do not read, and the number of renderings."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dragoman.adapters.zeromq import ZeroMQLimits
from dragoman.adapters.zeromq.publication import Publication
from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Line, Scripts
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import TextDelta, TurnEnded
from dragoman.mappings.dialect import Rendered
from tests.awaited import until
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import LIMITS, SmoothClient, serving
from tests.pairs.pando_client import PandoClient, RefusalError
from tests.pairs.pod_client import PodClient

BACKEND = Endpoint(dialect="pod", transport="demo", address="conversation")
BURST = 10_000  # ten times the messages that may wait for a subscriber
FLOOD = 50_000
BRIEFLY = ZeroMQLimits().publish_wait


class FourDialectGateway:
    """A gateway with listeners of four dialects and one session."""

    def __init__(self, app: App, addresses: list[str]) -> None:
        self.app = app
        self.smooth, pod, self.pando, codewhale = (address.partition("+")[2] for address in addresses)
        self.pod, self.codewhale = pod.removeprefix("unix:"), codewhale.removeprefix("unix:")
        self._published: list[tuple[str, Any]] = []
        polled = self.publication._polled
        send = polled.send

        def noticed(parts: Sequence[bytes]) -> bool:
            placed = send(parts)
            if placed:
                topic, _, envelope = parts[0].partition(b"\0")
                self._published.append((topic.decode(), json.loads(envelope)["payload"]))
            return placed

        polled.send = noticed  # type: ignore[method-assign]  # as it was, and we know of it

    @property
    def publication(self) -> Publication:
        (found,) = [link._transport for link in self.app.links if link.publishes]
        assert isinstance(found, Publication)
        return found

    def has_told(self, client: PandoClient) -> bool:
        """Return True if the client received everything that was published since it connected."""
        if self._published[-1:] != client.told[-1:]:
            return False  # without a comparison of all, which a test asks for in each step of the loop
        return self._published[-len(client.told) :] == client.told

    def lost(self) -> int:
        """Return the number of messages that the ledger counts as not delivered by the publication."""
        return sum(entry.count for entry in self.app.ledger.entries() if entry.kind == "publication")


@asynccontextmanager
async def gateway(
    folder: Path, limits: Limits = LIMITS, own: Sequence[list[Line]] = ()
) -> AsyncIterator[FourDialectGateway]:
    (folder / "atlas").mkdir()
    listen = (
        "smooth+ws://127.0.0.1:0/ws",
        f"pod+unix:{folder}/atlas/sock",
        "pando+tcp://127.0.0.1:0",
        f"codewhale+unix:{folder}/codewhale",
    )
    route = Route(name="gateway", listen=tuple(map(parse, listen)), upstream=BACKEND)
    app = App(
        Config(routes=(route,), limits=limits),
        make_backend=lambda session: DemoBackend(session, app.spawn, Scripts(own)),
    )
    async with asyncio.timeout(50), serving(app) as endpoints:
        yield FourDialectGateway(app, endpoints)


async def test_all_clients_see_the_turn_of_one(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path) as made,
        SmoothClient.connected(made.smooth) as smooth,
        PodClient.connected(made.pod) as pod,
        PandoClient.connected(made.pando) as pando,
        CodewhaleClient.connected(made.codewhale) as codewhale,
    ):
        await pando.say("retry")
        await smooth.until(lambda: any(f["type"] == "eventual_response" for f in smooth.frames))
        await pod.until(lambda: "run_end" in pod.names())
        await pando.until(lambda: "llm.end" in pando.topics())
        text = "The second try worked."
        assert "".join(f["token"] for f in smooth.frames if f["type"] == "stream_token") == text
        assert pod.joined("text_delta") == text
        assert pando.shown == [("user", "retry"), ("assistant", text)]
        told = await codewhale.call("thread/read", thread_id=codewhale.thread)
        assert [item["content"] for item in told["data"]["history"]] == ["retry", text]
        assert codewhale.text() == "", "it did not begin the turn"

        assert "result" in await codewhale.answer(await codewhale.say("Thank you!"))
        assert codewhale.text().endswith("木曜日に届きます。")
        await smooth.until(lambda: len(smooth.terminals()) == 2)
        await pod.until(lambda: pod.names().count("run_end") == 2)
        await pando.until(lambda: pando.topics().count("llm.end") == 2)
        assert pod.joined("text_delta") == text + codewhale.text()
        assert pando.shown[-1] == ("assistant", codewhale.text())


async def test_the_first_answer_of_any_client_in_any_dialect_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()

    async def pause(_backend: DemoBackend, _delay: float) -> None:
        await goes_on.wait()

    monkeypatch.setattr(DemoBackend, "_pause", pause)
    goes_on.set()
    async with (
        gateway(tmp_path) as made,
        SmoothClient.connected(made.smooth) as smooth,
        PodClient.connected(made.pod) as pod,
        PandoClient.connected(made.pando) as pando,
        CodewhaleClient.connected(made.codewhale) as codewhale,
    ):
        request = await smooth.say("approve please")
        await smooth.until(lambda: any(f["type"] == "write_confirmation_required" for f in smooth.frames))
        await pod.until(lambda: ("status", {"status": "paused"}) in pod.events)
        await pando.until(lambda: "llm.end" in pando.topics())
        goes_on.clear()  # the turn is not over before the others have answered, too
        await pando.say("deny")
        with pytest.raises(RefusalError):
            await pando.say("approve")
        late = await codewhale.answer(await codewhale.say("approve"))
        assert late["error"]["code"] == -32603
        goes_on.set()
        await smooth.until(lambda: any(f["type"] == "eventual_response" for f in smooth.of(request)))
        text = "".join(f["token"] for f in smooth.of(request) if f["type"] == "stream_token")
        assert text.endswith(" Then I leave the order as it is.")
        await pod.until(lambda: "run_end" in pod.names()[pod.names().index("run_end") + 1 :])
        assert pod.joined("text_delta").endswith(" Then I leave the order as it is.")
        await pando.until(lambda: pando.topics().count("llm.end") == 2)
        assert pando.shown[-1] == ("assistant", " Then I leave the order as it is.")


async def test_an_answer_of_a_pando_client_after_another_clients_is_no_input(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path) as made,
        SmoothClient.connected(made.smooth) as smooth,
        PandoClient.connected(made.pando) as pando,
    ):
        request = await smooth.say("approve please")
        await pando.until(lambda: "llm.end" in pando.topics())
        await smooth.send({"action": "confirm_tool_action", "sessionId": smooth.session, "approved": False})
        await smooth.until(lambda: any(f["type"] == "eventual_response" for f in smooth.of(request)))
        with pytest.raises(RefusalError, match="the question was answered, or the agent does not wait"):
            await pando.say("approve")


async def test_each_batch_is_rendered_once_for_all_clients_with_the_same_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: dict[str, Counter[int]] = {}
    for name, dialect in registry.dialects().items():
        counter = rendered[name] = Counter()
        kind = type(dialect.projection("", ""))

        def render(self: Any, batch: Batch, *, known: Any = kind.render, counter: Counter[int] = counter) -> Rendered:
            counter[batch.first_seq] += 1
            rendered: Rendered = known(self, batch)
            return rendered

        monkeypatch.setattr(kind, "render", render)
    async with (
        gateway(tmp_path) as made,
        SmoothClient.connected(made.smooth) as smooth,
        SmoothClient.connected(made.smooth),
        SmoothClient.connected(made.smooth),
        PodClient.connected(made.pod) as pod,
        PodClient.connected(made.pod),
        PandoClient.connected(made.pando) as pando,
        PandoClient.connected(made.pando),
        CodewhaleClient.connected(made.codewhale),
        CodewhaleClient.connected(made.codewhale),
    ):
        for counter in rendered.values():
            counter.clear()
        await smooth.turn("count 1000")
        await pod.until(lambda: "run_end" in pod.names())
        await pando.until(lambda: "llm.end" in pando.topics())
    most = {name: max(counter.values()) for name, counter in rendered.items()}
    assert most == {"smooth": 2, "pod": 1, "pando": 1, "codewhale": 1}, (
        "of smooth, one for who began the turn and one for the others"
    )


async def test_a_burst_reaches_a_reading_subscriber_completely(tmp_path: Path) -> None:
    async with gateway(tmp_path) as made, PandoClient.connected(made.pando) as pando:
        await pando.turn(f"count {BURST}")
        assert pando.shown[-1] == ("assistant", "".join(f"{n} " for n in range(BURST)))
        assert made.lost() == 0


async def test_a_stalled_subscriber_delays_no_other_client_and_then_receives_what_was_published(tmp_path: Path) -> None:
    limits = structs.replace(LIMITS, outbox_soft=64 * 1024, log_max=2 * FLOOD)
    async with (
        gateway(tmp_path, limits) as made,
        SmoothClient.connected(made.smooth) as smooth,
        PandoClient.connected(made.pando, room=100) as pando,
    ):
        made.publication._publish_wait = BRIEFLY
        pando.stop_reading()
        await smooth.turn(f"count {FLOOD}")
        assert smooth.terminals()[0]["type"] == "eventual_response", "who reads is not held up"
        pando.oracle = type(pando.oracle)()  # what was dropped was the middle of a run
        pando.read_on()
        await pando.heard()  # the end of the turn may be among what was lost
        await until(partial(made.has_told, pando))


async def test_losses_of_several_stalled_subscribers_are_counted_for_the_publication(tmp_path: Path) -> None:
    """A message for which one subscriber has no room is sent to none; so each received every published message, and the
    rest is counted.
    """
    # Pieces that are not merged, of more bytes than the system keeps for a subscriber (4 MiB), besides 1,000 messages.
    limits = structs.replace(LIMITS, outbox_soft=LIMITS.outbox_hard)
    long_turn = [*[Line(event=TextDelta(text="x" * 2_000))] * 4_000, Line(event=TurnEnded(end="completed"))]
    async with (
        gateway(tmp_path, limits, [long_turn]) as made,
        SmoothClient.connected(made.smooth) as smooth,
        PandoClient.connected(made.pando) as reader,
        PandoClient.connected(made.pando, session=reader.session, room=100) as one,
        PandoClient.connected(made.pando, session=reader.session, room=100) as other,
    ):
        stalled = (one, other)
        made.publication._publish_wait = BRIEFLY
        for client in stalled:
            client.stop_reading()
        await smooth.say("hello")
        await smooth.until(lambda: bool(smooth.terminals()))
        await until(lambda: made.lost() > 0)  # the publication still waits for room when the turn has ended
        for client in (reader, *stalled):
            client.oracle = type(client.oracle)()  # what was dropped was the middle of a run
            client.read_on()
        for client in (reader, *stalled):
            await client.heard()
            await until(partial(made.has_told, client))
