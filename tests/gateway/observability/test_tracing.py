"""Spans of turns with OpenTelemetry, collected in memory."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpServer
from structlog.testing import capture_logs

from dragoman.gateway.observability import tracing
from dragoman.gateway.observability.tracing import Telemetry, is_tracing_configured
from dragoman.gateway.observability.turn_watch import WatchedTurn
from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.test_observability import PARENT
from tests.pairs.gateway import SmoothClient, bridged
from tests.reserved_ports import reserved_port

sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")


def in_memory_telemetry() -> tuple[Telemetry, Any]:
    """Return telemetry, and the exporter that keeps its spans in memory."""
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    return Telemetry(provider), exporter


async def have_a_turn() -> None:
    """Run a gateway that is configured by the environment, with a client that has a turn."""
    async with (
        FakeSmooth.serving() as backend,
        bridged(backend.url) as (_, url),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("hello")


async def test_the_span_of_a_turn_reaches_a_collector_over_http(
    monkeypatch: pytest.MonkeyPatch, aiohttp_server: AiohttpServer
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    received: list[bytes] = []

    async def collect(request: web.Request) -> web.Response:
        received.append(await request.read())
        return web.Response(content_type="application/x-protobuf")

    collector = web.Application()
    collector.router.add_post("/v1/traces", collect)
    server = await aiohttp_server(collector)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", str(server.make_url("")).rstrip("/"))
    await have_a_turn()
    (body,) = received
    (resource,) = service.ExportTraceServiceRequest.FromString(body).resource_spans
    facts = {fact.key: fact.value.string_value for fact in resource.resource.attributes}
    assert facts["service.name"] == "dragoman"
    assert [span.name for spans in resource.scope_spans for span in spans.spans] == ["turn"]


async def test_the_body_of_the_answer_of_a_collector_is_not_read(
    monkeypatch: pytest.MonkeyPatch, aiohttp_server: AiohttpServer
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    exported = asyncio.Event()

    async def never_end(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await exported.wait()
        return answer

    collector = web.Application()
    collector.router.add_post("/v1/traces", never_end)
    server = await aiohttp_server(collector)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", str(server.make_url("")).rstrip("/"))
    result = await asyncio.to_thread(tracing._exporter().export, ())
    exported.set()
    assert result.name == "SUCCESS"


async def test_a_lost_trace_collector_is_logged_once_and_disturbs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setattr(tracing, "FLUSH_DEADLINE", 0.1)
    with reserved_port() as port, capture_logs() as logs:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        await have_a_turn()
    assert [entry["event"] for entry in logs if "spans" in entry["event"]] == [
        "the last spans were not exported before the deadline"
    ]
    for flush in [thread for thread in threading.enumerate() if thread.name == "otel:flush"]:
        flush.join()  # it would log in the middle of another test


async def test_a_gateway_that_gets_no_thread_at_its_end_leaves_its_last_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry, _exporter = in_memory_telemetry()
    monkeypatch.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("can't start new thread")))
    with capture_logs() as logs:
        await telemetry.close()
    assert [line["event"] for line in logs] == ["the last spans are not exported"]


def test_a_collector_that_refuses_spans_is_logged_once_until_it_accepts_spans() -> None:
    results = [export.SpanExportResult.FAILURE] * 3 + [export.SpanExportResult.SUCCESS] * 2
    answers = iter(results)

    class Exporter:
        def export(self, _spans: object) -> object:
            return next(answers)

    watched = tracing.WatchedExporter(Exporter())
    with capture_logs() as logs:
        assert [watched.export(()) for _ in results] == results
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]


async def test_a_turn_is_a_span_with_its_moments_in_the_trace_of_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry, exporter = in_memory_telemetry()
    monkeypatch.setattr("dragoman.gateway.app._telemetry", lambda: telemetry)
    async with (
        FakeSmooth.serving() as backend,
        bridged(backend.url) as (_, url),
        SmoothClient.connected(url, trace=PARENT) as client,
    ):
        await client.say("confirm")
        await client.until(lambda: any(frame["type"] == "write_confirmation_required" for frame in client.frames))
        await client.ask({"action": "confirm_tool_action", "sessionId": client.session, "approved": True})
        await client.until(client.terminals)
    (span,) = exporter.get_finished_spans()
    assert format(span.context.trace_id, "032x") == PARENT[3:35]
    assert format(span.parent.span_id, "016x") == PARENT[36:52]
    names = [event.name for event in span.events]
    assert names[-1] == "turn ended"
    assert {"input", "turn accepted", "question", "answer", "first text"} <= set(names)
    assert span.attributes["dragoman.end"] == "completed"
    assert "Delete it?" not in span.to_json()


def test_a_span_on_the_console_is_one_line_like_those_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    telemetry = tracing.start_telemetry()
    assert telemetry is not None
    telemetry.spans.begin("t", WatchedTurn(facts={"session": "s"}, began=0))
    telemetry.spans.end("t", "completed", "")
    asyncio.run(telemetry.close())
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["attributes"] == {"dragoman.session": "s", "dragoman.end": "completed"}


def test_the_reason_of_a_failed_span_contains_no_secret() -> None:
    telemetry, exporter = in_memory_telemetry()
    spans, secret = telemetry.spans, f"ghp_{'Xa9' * 12}"
    spans.begin("t", WatchedTurn(facts={}, began=0))
    spans.end("t", "failed", f"the key {secret} is not accepted")
    (span,) = exporter.get_finished_spans()
    assert span.status.description.startswith("the key [redacted:github_token:")
    assert secret not in span.to_json()


@pytest.mark.parametrize(
    ("environment", "configured"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, False),
    ],
)
def test_traces_are_made_if_the_environment_asks_for_them(environment: dict[str, str], configured: bool) -> None:
    assert is_tracing_configured(environment) is configured


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "write otlp, console or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "write http/protobuf or grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "write http/protobuf or grpc"),
    ],
)
def test_an_exporter_or_a_protocol_that_dragoman_does_not_have_is_a_warning(
    name: str, value: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    monkeypatch.setenv(name, value)
    with capture_logs() as logs:
        assert tracing.start_telemetry() is None
    (line,) = logs
    assert value in line["cause"]
    assert line["cause"].endswith(cause)


async def test_an_empty_variable_counts_as_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        monkeypatch.setenv(name, "")
    telemetry = tracing.start_telemetry()
    assert telemetry is not None
    await telemetry.close()


def test_a_missing_library_is_a_warning_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with capture_logs() as logs:
        assert tracing.start_telemetry() is None
    install = f"{sys.executable} -m pip install 'dragoman[otel]'"
    assert [(line["event"], line["install"]) for line in logs] == [("traces are off; install the extra", install)]
