"""Make the metrics of a running gateway for Prometheus (docs/operations.md, section 3).

Everything is read when somebody scrapes: counters from the ledger, gauges from the tables of links and sessions. Only
the frames and times of links are counted as they pass, and only by a gateway with an ops port. Each label has a bounded
set of values, which no peer can enlarge: a kind of loss that is not in KINDS counts as `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from dragoman import __version__
from dragoman.gateway.app import App
from dragoman.gateway.ops.heartbeat import LAG_BUCKETS, LoopHeartbeat
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import End
from dragoman.mappings.errors import PeerErrorCode

OTHER = "other"
KINDS = frozenset(kind.__name__ for union in (Event, Command) for kind in get_args(union)) | {
    *("call", "frame", "link", "publication", "subscriber", "transcript"),
}
"""Kinds of losses that have a series of their own: canonical events and commands, and parts of the gateway."""

NS = 1_000_000_000
Labels = tuple[str, ...]


async def collect_metrics(gateway: App, heartbeat: LoopHeartbeat) -> list[Metric]:
    """Return all metrics of a gateway. Call this in its event loop."""
    sessions = [(router.route.name, session) for router in gateway.routers for session in router.sessions]
    return [
        _gauge("build_info", "Always 1; the label has the version of dragoman.", ("version",), {(__version__,): 1}),
        *_of_links(gateway),
        *_of_sessions(sessions),
        *_of_traffic(gateway),
        *_of_losses(gateway),
        *_of_refusals(gateway.ledger.counters),
        *_of_backends(gateway),
        *_of_recordings(gateway),
        *_of_memory(gateway, sessions),
        _of_loop(heartbeat),
    ]


def encode_metrics(metrics: list[Metric], accept: str) -> tuple[bytes, str]:
    """Return the text of these metrics and of the process in a format that a scraper accepts, and its content type."""
    registry = CollectorRegistry()
    registry.register(cast(Any, _Collected(metrics)))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collected:
    """A collector whose metrics are made already."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._metrics


def _of_links(gateway: App) -> Iterator[Metric]:
    links: Counter[Labels] = Counter()
    queued: Counter[Labels] = Counter()
    behind = 0
    for link in gateway.links:
        links[link.dialect.name,] += 1
        queued[link.dialect.name,] += link.outbox.size
        behind += bool(link.behind)
    yield _gauge("links", "Clients that are connected.", ("dialect",), links)
    yield _gauge("queued_bytes", "Bytes that wait to be written to clients.", ("dialect",), queued)
    waiting = {(): gateway.waiting_links}
    yield _gauge("links_waiting", "Links whose messages wait for a later step of the event loop.", (), waiting)
    yield _gauge("links_behind", "Clients that read slowly and get merged text later.", (), {(): behind})


def _of_sessions(sessions: list[tuple[str, Session]]) -> Iterator[Metric]:
    found: Counter[Labels] = Counter()
    for route, session in sessions:
        found[route, session.state.status] += 1
    yield _gauge("sessions", "Sessions that the gateway holds, by their status.", ("route", "status"), found)
    busy = sum(session.is_busy for _route, session in sessions)
    yield _gauge("turns_open", "Sessions with an open turn, or with an input that waits.", (), {(): busy})


def _of_traffic(gateway: App) -> Iterator[Metric]:
    traffic = gateway.ledger.traffic
    both = ("dialect", "peer", "direction")
    frames = {(*key, "received"): one.frames_received for key, one in traffic.items()}
    frames |= {(*key, "sent"): one.frames_sent for key, one in traffic.items()}
    sizes = {(*key, "received"): one.bytes_received for key, one in traffic.items()}
    sizes |= {(*key, "sent"): one.bytes_sent for key, one in traffic.items()}
    yield _counter("frames", "Frames received from peers and sent to them.", both, frames)
    yield _counter("bytes", "Bytes of those frames.", both, sizes)
    spent = SummaryMetricFamily(
        "dragoman_translation_seconds",
        "Time to decode and translate what one read brought (received), or to render and encode a batch (sent).",
        labels=both,
    )
    for key, one in traffic.items():
        spent.add_metric([*key, "received"], one.reads, one.read_ns / NS)
        if one.renderings:
            spent.add_metric([*key, "sent"], one.renderings, one.render_ns / NS)
    yield spent
    counters = gateway.ledger.counters
    ends = {(end,): counters[f"turns_{end}"] for end in get_args(End)}
    yield _counter("turns", "Turns that ended, by their end.", ("end",), ends)
    yield _counter("merged_events", "Events that slow clients got merged.", (), {(): counters["events_merged"]})


def _of_losses(gateway: App) -> Iterator[Metric]:
    dialects = {name for name, _role in gateway.ledger.traffic} | {""}
    for name, help_text, entries in (
        ("losses", "Messages and parts that were not delivered, by the kind of message.", gateway.ledger.entries()),
        ("partial_deliveries", "Messages delivered without fields that they had.", gateway.ledger.partial()),
    ):
        found: Counter[Labels] = Counter()
        for entry in entries:
            source, target = (at if at in dialects else OTHER for at in (entry.source, entry.target))
            found[source, target, entry.kind if entry.kind in KINDS else OTHER] += entry.count
        yield _counter(name, help_text, ("source", "target", "kind"), found)


def _of_refusals(counters: Mapping[str, int]) -> Iterator[Metric]:
    """Read the counters whose names have a part that varies: a code, a reason or a dialect."""
    faults, cut, refused = Counter[Labels](), Counter[Labels](), Counter[Labels]()
    codes = get_args(PeerErrorCode)
    for name, count in list(counters.items()):
        if name.startswith("faults_"):
            dialect, _, code = name.removeprefix("faults_").partition("_")
            faults[dialect, code if code in codes else OTHER] += count
        elif name.startswith("links_cut_"):
            code = name.removeprefix("links_cut_")
            cut[code if code in codes else OTHER,] += count
        elif name == "authentication_failed":
            refused["client", "authentication"] += count
        elif name.startswith("refused_"):
            what, _, reason = name.removeprefix("refused_").partition("_")
            refused[what, reason] += count
    yield _counter("faults", "Bad frames of peers, by their error.", ("dialect", "code"), faults)
    yield _counter("links_cut", "Links that were disconnected for an error of their peer.", ("code",), cut)
    yield _counter("refused", "Clients and sessions that were refused, by the reason.", ("what", "reason"), refused)


def _of_backends(gateway: App) -> Iterator[Metric]:
    backends = gateway.upstreams.statuses.items()
    labels = ("route",)
    yield _gauge("backend_connections", "Connections to the backend.", labels, {(n,): b.connected for n, b in backends})
    wanted = {(name,): one.wanted - one.connected for name, one in backends}
    yield _gauge("backend_connections_missing", "Connections to the backend that are tried again.", labels, wanted)
    attempts = {(name,): one.attempts for name, one in backends}
    yield _counter("backend_attempts", "Attempts to connect to the backend.", labels, attempts)
    lost = {(name,): one.lost for name, one in backends}
    yield _counter("backend_failures", "Failed attempts and lost connections to the backend.", labels, lost)
    yield _gauge("children", "Child processes that run.", (), {(): len(gateway.children)})
    yield _gauge("children_limit", "Child processes that may run (`children`).", (), {(): gateway.children.most})


def _of_recordings(gateway: App) -> Iterator[Metric]:
    if gateway.recordings is None:
        return
    writer, counters = gateway.recordings.writer, gateway.ledger.counters
    written, behind = (writer.bytes_written, writer.backlog) if writer is not None else (0, 0)
    yield _counter("recording_bytes", "Bytes of recordings that were written.", (), {(): written})
    yield _gauge("recording_behind_bytes", "Bytes of recordings that wait for the disk.", (), {(): behind})
    failed = counters["recordings_failed"]
    yield _counter("recording_failures", "Files of recordings that could not be written.", (), {(): failed})
    lost = counters["recording_lines_lost"]
    yield _counter("recording_lost_items", "Frames, events and commands that are not recorded.", (), {(): lost})
    redacted = counters["secrets_redacted"]
    yield _counter("recording_redacted", "Secrets that were left out of recordings.", (), {(): redacted})


def _of_memory(gateway: App, sessions: list[tuple[str, Session]]) -> Iterator[Metric]:
    memory = gateway.memory
    clients = sum(link.meter.counted for link in gateway.links)
    held = sum(session.memory.counted for _route, session in sessions)
    holders = {("clients",): clients, ("sessions",): held, (OTHER,): max(0, memory.used - clients - held)}
    yield _gauge("memory_bytes", "Bytes that peers make the gateway hold, by holder.", ("holder",), holders)
    yield _gauge("memory_limit_bytes", "Bytes that peers may make the gateway hold.", (), {(): memory.limit})
    relieved = {(): memory.relieved}
    yield _counter("memory_relieved", "Links cut and sessions shortened because memory ran out.", (), relieved)


def _of_loop(heartbeat: LoopHeartbeat) -> Metric:
    counts = heartbeat.count_up_to()
    buckets = list(zip((*map(str, LAG_BUCKETS), "+Inf"), map(float, counts), strict=True))
    return HistogramMetricFamily(
        "dragoman_loop_lag_seconds",
        "How late the timers of the event loop were, four times a second.",
        buckets=buckets,
        sum_value=heartbeat.total_lag,
    )


def _gauge(name: str, help_text: str, labels: Labels, values: Mapping[Any, float]) -> Metric:
    return _filled(GaugeMetricFamily(f"dragoman_{name}", help_text, labels=labels), values)


def _counter(name: str, help_text: str, labels: Labels, values: Mapping[Any, float]) -> Metric:
    return _filled(CounterMetricFamily(f"dragoman_{name}", help_text, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[Any, float]) -> Metric:
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
