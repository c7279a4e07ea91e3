"""The metrics of a gateway, read by the parser of Prometheus's own library."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Recording, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.ops.gateway_loop import SLICE, LoopHeartbeat
from dragoman.gateway.ops.metrics import KINDS, collect_metrics
from dragoman.mappings.canonical.values import End
from dragoman.mappings.dialect import Loss
from dragoman.mappings.errors import PeerErrorCode
from tests.adapters.websocket.certificates import NOW, Authority
from tests.conformance.fake_pod import FakePod
from tests.gateway.ops.running import OpsClient, operated
from tests.pairs.gateway import LIMITS, SmoothClient, socket_path

PAGE = (Path(__file__).parents[3] / "docs/operations.md").read_text("utf-8")


async def scrape(port: OpsClient) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Return each sample by its name and labels."""
    status, text, _ = await port.ask_raw("/metrics")
    assert status == 200
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def value(found: Mapping[str, Mapping[frozenset[tuple[str, str]], float]], name: str, **labels: str) -> float:
    return found[f"dragoman_{name}"][frozenset(labels.items())]


async def test_a_turn_shows_in_links_sessions_turns_frames_and_times(tmp_path: Path) -> None:
    path = socket_path(tmp_path)
    async with FakePod.serving(path), operated(f"pod+unix:{path}") as port:
        async with SmoothClient.connected(port.listening[0].partition("+")[2]) as client:
            await client.turn("hello")
            found = await scrape(port)
            assert value(found, "links", dialect="smooth") == 1
            assert value(found, "sessions", route="test", status="idle") == 1
            assert value(found, "turns_total", route="test", end="completed") == 1
            assert value(found, "backend_connections", route="test") == 1
            smooth = {"dialect": "smooth", "peer": "client"}
            assert value(found, "frames_total", direction="received", **smooth) == 2
            assert value(found, "frames_total", direction="sent", **smooth) == len(client.frames)
            pod = {"dialect": "pod", "peer": "backend"}
            assert value(found, "bytes_total", direction="received", **pod) > 100
            reads = value(found, "translation_seconds_count", direction="received", **pod)
            assert reads >= 1
            assert value(found, "translation_seconds_bucket", direction="received", le="+Inf", **pod) == reads
            assert value(found, "translation_seconds_bucket", direction="received", le="1.0", **pod) <= reads
            assert value(found, "translation_seconds_sum", direction="sent", **smooth) > 0
        after = await scrape(port)
        assert value(after, "bytes_total", direction="sent", **smooth) >= value(
            found, "bytes_total", direction="sent", **smooth
        ), "what a link counted stays when it is gone"


async def test_a_gateway_without_clients_reports_zero_of_each_gauge_with_labels() -> None:
    async with operated() as port:
        found = await scrape(port)
        assert found["dragoman_links"] == found["dragoman_queued_bytes"] == {frozenset({("dialect", "smooth")}): 0}
        assert [value(found, "sessions", route="test", status=status) for status in ("running", "paused")] == [0, 0]


async def test_every_metric_has_a_help_text_and_a_name_of_this_program_or_of_the_process() -> None:
    async with operated() as port:
        _, text, _ = await port.ask_raw("/metrics")
        for family in text_string_to_metric_families(text):
            assert family.name.startswith(("dragoman_", "process_"))
            assert family.documentation.endswith("."), family.name


def in_first_cells(table: str) -> list[str]:
    """Return the names in the first cells of a table of docs/operations.md, sorted; the table begins with this text."""
    rows = PAGE.partition(table)[2].partition("\n\n")[0].split("\n| ")[1:]
    return sorted(name for row in rows for name in re.findall(r"`(\w+)`", row.partition("|")[0]))


def test_the_document_explains_each_code_of_an_error() -> None:
    assert in_first_cells("| `code` of ") == sorted(get_args(PeerErrorCode))


async def test_exactly_the_metrics_of_the_document_are_served(tmp_path: Path) -> None:
    route = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=parse("pod+unix:/nowhere/sock"))
    app = App(Config(routes=(route,), limits=LIMITS, recording=Recording(path=f"{tmp_path}/")))
    async with operated(app=app) as port:
        metrics = await collect_metrics(port.app, LoopHeartbeat())
        served = [one.name.removeprefix("dragoman_") + ("_total" if one.type == "counter" else "") for one in metrics]
        shown = in_first_cells("| metric ")
        assert not set(served).difference(shown), "write a row for these metrics in docs/operations.md, section 3"
        assert sorted(served) == shown


async def test_the_end_of_the_certificate_of_a_listener_is_served(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("server")
    listen = (parse(f"smooth+wss://127.0.0.1:0/ws?cert={certificate}&key={key}"), parse("smooth+ws://127.0.0.1:0/ws"))
    route = Route(name="test", listen=listen, upstream=parse("pod+unix:/nowhere/sock"))
    async with operated(app=App(Config(routes=(route,), limits=LIMITS))) as port:
        ends = (await scrape(port))["dragoman_certificate_expiry_timestamp_seconds"]
    (address,) = [address for address in port.listening if "wss:" in address]
    assert ends == {frozenset({("listener", address)}): int((NOW + timedelta(hours=1)).timestamp())}


async def test_a_scraper_may_ask_for_openmetrics() -> None:
    async with operated() as port:
        _, text, headers = await port.ask_raw("/metrics", headers={"Accept": "application/openmetrics-text"})
        assert headers["Content-Type"].startswith("application/openmetrics-text")
        families = parse_openmetrics(text)  # type: ignore[no-untyped-call]  # the library has no types there
        assert "dragoman_turns" in {family.name for family in families}


async def test_kinds_that_a_peer_invents_make_no_series() -> None:
    async with operated() as port:
        ledger: Ledger = port.app.ledger
        ledger.record([Loss(kind=f"invented-{number}") for number in range(500)], source="pod", target="\nx\\")
        ledger.record([Loss(kind="TextDelta")])
        losses = (await scrape(port))["dragoman_losses_total"]
        assert sorted(losses.values()) == [1, 500]
        assert {dict(labels)["kind"] for labels in losses} == {"other", "TextDelta"}


@pytest.mark.parametrize("kind", ["TextDelta", "SubmitInput", "Unmapped", "frame"])
def test_kinds_of_messages_have_a_series_of_their_own(kind: str) -> None:
    assert kind in KINDS


async def test_a_scrape_reads_long_tables_in_slices() -> None:
    entries = 10 * SLICE
    async with operated() as port, asyncio.TaskGroup() as group:
        for number in range(entries):
            port.app.ledger.record([Loss(kind="TextDelta")], session=f"session-{number}")
        scraping = group.create_task(collect_metrics(port.app, LoopHeartbeat()))
        steps = 0
        while not scraping.done():
            steps += 1
            await asyncio.sleep(0)
        assert steps >= entries / SLICE


async def test_the_lag_of_the_loop_is_a_histogram() -> None:
    async with operated() as port:
        found = await scrape(port)
        assert value(found, "loop_lag_seconds_bucket", le="+Inf") == value(found, "loop_lag_seconds_count")


async def test_refusals_faults_and_links_cut_have_bounded_labels() -> None:
    async with operated() as port:
        port.app.ledger.counters.update(
            {
                "faults_smooth_not_json": 2,
                "links_cut_too_slow": 1,
                "refused_client_address_links": 3,
                "refused_command_role": 4,
            }
        )
        found = await scrape(port)
        assert value(found, "faults_total", dialect="smooth", code="not_json") == 2
        assert value(found, "links_cut_total", code="too_slow") == 1
        assert value(found, "refused_total", what="client", reason="address_links") == 3
        assert value(found, "refused_total", what="command", reason="role") == 4


async def test_turns_are_counted_by_route_and_end_from_zero_on() -> None:
    async with operated() as port:
        turns = (await scrape(port))["dragoman_turns_total"]
        assert {dict(labels)["end"] for labels in turns} == {*get_args(End)}
        assert {dict(labels)["route"] for labels in turns} == {"test"}


async def test_a_refused_reload_shows_until_the_next_one() -> None:
    async with operated() as port:
        status = port.app.config_status
        assert value(await scrape(port), "config_refused") == 0
        port.app.note_config(structs.replace(status, refused_at=1, cause="a bad file"))
        found = await scrape(port)
        assert (value(found, "config_refused"), value(found, "config_generation")) == (1, status.generation)
