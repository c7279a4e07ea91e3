"""Spans of turns for OpenTelemetry (the extra `dragoman[otel]`), set up by its standard environment variables.

Nothing is imported unless OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT asks
for it. Each turn is a span of the trace that its client or session came with. The span has an event for each moment of
gateway/observability/turn_watch.py, and no content; a failed one has its reason, without secrets. Spans are exported by
a thread of the library.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

import structlog

from dragoman.gateway.observability.turn_watch import Moment, WatchedTurn
from dragoman.gateway.process.runtime import start_thread
from dragoman.gateway.public_reason import without_secrets
from dragoman.mappings.errors import DragomanError

FLUSH_DEADLINE = 2.0  # seconds at the end for the last spans: a collector that answers takes milliseconds

log = structlog.get_logger("dragoman")


def is_tracing_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if the environment asks for traces."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return False
    places = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return bool(exporter) or any(environment.get(name) for name in places)


class OpenTelemetrySpans:
    """The spans of open turns, made by a tracer of OpenTelemetry."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._spans: dict[str, Any] = {}

    def begin(self, turn: str, watched: WatchedTurn) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(dict(watched.trace or {}))
        attributes = {f"dragoman.{name}": text for name, text in watched.facts.items() if name != "trace"}
        self._spans[turn] = self._tracer.start_span(
            "turn", context=context, kind=SpanKind.SERVER, attributes=attributes
        )

    def note(self, turn: str, moment: Moment) -> None:
        self._spans[turn].add_event(moment.name, moment.facts)

    def end(self, turn: str, end: str, failure: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        span = self._spans.pop(turn)
        span.set_attribute("dragoman.end", end)
        if end == "failed":
            span.set_status(Status(StatusCode.ERROR, without_secrets(failure)))
        span.end()


class WatchedExporter:
    """An exporter of spans that logs once when the collector does not take them, and once when it does again.

    The library would log several lines for each batch. It calls the exporter in a thread of its own.
    """

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self._fails = False

    def export(self, spans: Sequence[Any]) -> Any:
        result = self._exporter.export(spans)
        fails = result.name != "SUCCESS"
        if fails and not self._fails:
            log.warning("spans are not exported: the collector refuses them")
        elif self._fails and not fails:
            log.info("spans are exported again")
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export what the exporter still holds."""
        return bool(self._exporter.force_flush(timeout_millis))


class Telemetry:
    """The spans of a gateway, and the library that exports them."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self.spans = OpenTelemetrySpans(provider.get_tracer("dragoman"))

    async def close(self) -> None:
        """Export the last spans, for at most FLUSH_DEADLINE: a collector may be gone."""
        thread = threading.Thread(target=self._provider.shutdown, name="otel:flush", daemon=True)
        try:
            start_thread(thread)
        except DragomanError as error:
            log.warning("the last spans are not exported", cause=str(error))
            return
        await asyncio.to_thread(thread.join, FLUSH_DEADLINE)
        if thread.is_alive():
            log.warning("the last spans were not exported before the deadline")


def start_telemetry() -> Telemetry | None:
    """Return the telemetry that the environment asks for. If it cannot be started, log a warning and return None."""
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = _exporter()
    except ImportError as error:
        install = f"{sys.executable} -m pip install 'dragoman[otel]'"
        log.warning("traces are off; install the extra", install=install, cause=str(error))
        return None
    except ValueError as error:
        log.warning("traces are off", cause=str(error))
        return None
    resource = Resource({SERVICE_NAME: "dragoman"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(cast(Any, WatchedExporter(exporter))))
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # WatchedExporter says it once
    return Telemetry(provider)


def _exporter() -> Any:
    """Return the exporter that the environment names; raise ImportError, or ValueError for an unknown one."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"  # an empty variable counts as missing
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n")
    if name != "otlp":
        raise ValueError(f"OTEL_TRACES_EXPORTER={name}: write otlp, console or none")
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(os.environ.get, variables)), "http/protobuf")
    if protocol not in ("grpc", "http/protobuf"):
        raise ValueError(f"the protocol {protocol} of OTEL_EXPORTER_OTLP_PROTOCOL: write http/protobuf or grpc")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc()
    import requests  # a dependency of the exporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    session = requests.Session()
    session.stream = True  # only the status is read: a body without an end would fill the memory
    return Http(session=session)
