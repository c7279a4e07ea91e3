"""Make the metrics of a running gateway for Prometheus (docs/operations.md, section 3).

All values are read at a scrape: counters from the ledger, gauges from the tables of links and sessions. These tables
may be long, so they are read in slices. Only the frames and times of links are counted as they pass, and only by a
gateway with an ops port. Each label has a bounded set of values, which no peer can enlarge: a kind of loss that is not
in KINDS counts as `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args

from msgspec import Struct, field
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from dragoman import __version__
from dragoman.gateway.app import App
from dragoman.gateway.observability.ledger import Entry
from dragoman.gateway.observability.traffic import Histogram
from dragoman.gateway.ops.gateway_loop import LoopHeartbeat, take_slices
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import End, Status
from dragoman.mappings.errors import PeerErrorCode

OTHER = "other"
KINDS = frozenset(kind.__name__ for union in (Event, Command) for kind in get_args(union)) | {
    *("call", "frame", "link", "publication", "subscriber", "transcript"),
}
"""Kinds of losses that have a series of their own: canonical events and commands, and parts of the gateway."""

Labels = tuple[str, ...]
Values = Mapping[Any, float] | float
"""The value of each series by the values of its labels, or that of the only series."""


class _Held(Struct, kw_only=True):
    """The sums over the tables of links and sessions."""

    links: Counter[Labels] = field(default_factory=Counter)
    queued: Counter[Labels] = field(default_factory=Counter)
    behind: int = 0
    sessions: Counter[Labels] = field(default_factory=Counter)
    busy: int = 0
    client_memory: int = 0
    session_memory: int = 0


async def collect_metrics(gateway: App, heartbeat: LoopHeartbeat) -> list[Metric]:
    """Return all metrics of a gateway. Call this in its event loop."""
    held = await _sum_tables(gateway)
    losses = await _count_losses(gateway, gateway.ledger.entries())
    partial = await _count_losses(gateway, gateway.ledger.partial())
    return [
        _gauge("build_info", "Always 1; the label has the version of dragoman.", {(__version__,): 1}, ("version",)),
        *_of_links(gateway, held),
        _of_certificates(gateway),
        *_of_turns(gateway, held),
        *_of_traffic(gateway),
        *_of_losses(losses, partial),
        *_of_refusals(gateway.ledger.counters),
        *_of_backends(gateway),
        *_of_config(gateway),
        *_of_recordings(gateway),
        *_of_memory(gateway, held),
        _of_loop(heartbeat),
    ]


async def _sum_tables(gateway: App) -> _Held:
    held = _Held()
    async for links in take_slices(gateway.links):
        for link in links:
            held.links[link.dialect.name,] += 1
            held.queued[link.dialect.name,] += link.outbox.size
            held.behind += bool(link.behind)
            held.client_memory += link.meter.counted
    for router in list(gateway.routers):
        async for sessions in take_slices(router.sessions):
            for session in sessions:
                held.sessions[router.route.name, session.state.status] += 1
                held.busy += session.is_busy
                held.session_memory += session.memory.counted
    return held


async def _count_losses(gateway: App, entries: list[Entry]) -> Counter[Labels]:
    """Return the number of losses by source, target and kind; none of these has a value that a peer made."""
    dialects = {name for name, _role in gateway.ledger.traffic} | {""}
    found: Counter[Labels] = Counter()
    async for some in take_slices(entries):
        for entry in some:
            source, target = (at if at in dialects else OTHER for at in (entry.source, entry.target))
            found[source, target, entry.kind if entry.kind in KINDS else OTHER] += entry.count
    return found


def encode_metrics(metrics: list[Metric], accept: str) -> tuple[bytes, str]:
    """Return the text of these metrics and of the process in a format that a scraper accepts, and its content type."""
    registry = CollectorRegistry()
    registry.register(cast(Any, _Collected(metrics)))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collected:
    """A Prometheus collector that returns metrics made before."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _of_links(gateway: App, held: _Held) -> Iterator[Metric]:
    none: dict[Labels, int] = {(endpoint.dialect,): 0 for route in gateway.config.routes for endpoint in route.listen}
    yield _gauge("links", "Clients that are connected.", none | held.links, ("dialect",))
    yield _gauge("queued_bytes", "Bytes that wait to be written to clients.", none | held.queued, ("dialect",))
    help_text = "Links whose messages wait for a later step of the event loop."
    yield _gauge("links_waiting", help_text, gateway.waiting_links)
    yield _gauge("links_behind", "Clients that read slowly and get merged text later.", held.behind)
    merged = gateway.ledger.counters["events_merged"]
    yield _counter("merged_events", "Events that slow clients got merged.", merged)


def _of_certificates(gateway: App) -> Metric:
    ends = {(address,): end for address, end in gateway.certificate_ends.items()}
    help_text = "Time at which the certificate of a listener expires, in seconds since 1970."
    return _gauge("certificate_expiry_timestamp_seconds", help_text, ends, ("listener",))


def _of_turns(gateway: App, held: _Held) -> Iterator[Metric]:
    routes = dict.fromkeys(router.route.name for router in gateway.routers)
    sessions = {(route, status): 0 for route in routes for status in get_args(Status)} | held.sessions
    yield _gauge("sessions", "Sessions that the gateway holds, by their status.", sessions, ("route", "status"))
    yield _gauge("turns_open", "Sessions with an open turn, or with an input that waits.", held.busy)
    turns = {(route, end): 0 for route in routes for end in get_args(End)} | gateway.ledger.turns
    yield _counter("turns", "Turns that ended, by their route and end.", turns, ("route", "end"))


def _of_traffic(gateway: App) -> Iterator[Metric]:
    traffic = gateway.ledger.traffic
    both = ("dialect", "peer", "direction")
    frames = {(*key, "received"): one.frames_received for key, one in traffic.items()}
    frames |= {(*key, "sent"): one.frames_sent for key, one in traffic.items()}
    sizes = {(*key, "received"): one.bytes_received for key, one in traffic.items()}
    sizes |= {(*key, "sent"): one.bytes_sent for key, one in traffic.items()}
    yield _counter("frames", "Frames received from peers and sent to them.", frames, both)
    yield _counter("bytes", "Bytes of those frames.", sizes, both)
    spent = HistogramMetricFamily(
        "dragoman_translation_seconds",
        "Time to decode and translate what one read brought (received), or to render and encode a batch (sent).",
        labels=both,
    )
    for key, one in traffic.items():
        for direction, times in (("received", one.read_seconds), ("sent", one.render_seconds)):
            if times.number:
                spent.add_metric([*key, direction], _buckets(times), times.total)
    yield spent


def _of_losses(losses: Counter[Labels], partial: Counter[Labels]) -> Iterator[Metric]:
    labels = ("source", "target", "kind")
    yield _counter("losses", "Messages and parts that were not delivered, by the kind of message.", losses, labels)
    yield _counter("partial_deliveries", "Messages delivered without fields that they had.", partial, labels)


def _of_refusals(counters: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the metrics of counters whose names contain a code, a reason or a dialect."""
    faults, cut, refused = Counter[Labels](), Counter[Labels](), Counter[Labels]()
    codes = get_args(PeerErrorCode)
    for name, count in list(counters.items()):
        if name.startswith("faults_"):
            dialect, _, code = name.removeprefix("faults_").partition("_")
            faults[dialect, code if code in codes else OTHER] += count
        elif name.startswith("links_cut_"):
            code = name.removeprefix("links_cut_")
            cut[code if code in codes else OTHER,] += count
        elif name.startswith("refused_"):
            what, _, reason = name.removeprefix("refused_").partition("_")
            refused[what, reason] += count
    yield _counter("faults", "Bad frames of peers, by their error.", faults, ("dialect", "code"))
    yield _counter("links_cut", "Links that were disconnected for an error of their peer.", cut, ("code",))
    help_text = "Clients, sessions and commands that were refused, by the reason."
    yield _counter("refused", help_text, refused, ("what", "reason"))


def _of_backends(gateway: App) -> Iterator[Metric]:
    backends = gateway.upstreams.statuses.items()
    labels = ("route",)
    connected = {(name,): one.connected for name, one in backends}
    yield _gauge("backend_connections", "Connections to the backend.", connected, labels)
    missing = {(name,): one.wanted - one.connected for name, one in backends}
    yield _gauge("backend_connections_missing", "Connections to the backend that are tried again.", missing, labels)
    attempts = {(name,): one.attempts for name, one in backends}
    yield _counter("backend_attempts", "Attempts to connect to the backend.", attempts, labels)
    lost = {(name,): one.lost for name, one in backends}
    yield _counter("backend_failures", "Failed attempts and lost connections to the backend.", lost, labels)
    yield _gauge("children", "Child processes that run.", len(gateway.children))
    yield _gauge("children_limit", "Child processes that may run (`children`).", gateway.children.most)


def _of_config(gateway: App) -> Iterator[Metric]:
    status = gateway.config_status
    yield _gauge("config_generation", "Generation of the configuration in force.", status.generation)
    help_text = "1 if the last reload was refused, so that its file is not in force."
    yield _gauge("config_refused", help_text, bool(status.refused_at))


def _of_recordings(gateway: App) -> Iterator[Metric]:
    if gateway.recordings is None:
        return
    writer, counters = gateway.recordings.writer, gateway.ledger.counters
    yield _counter("recording_bytes", "Bytes of recordings that were written.", writer.bytes_written)
    yield _gauge("recording_behind_bytes", "Bytes of recordings that wait for the disk.", writer.backlog)
    failed = counters["recordings_failed"]
    yield _counter("recording_failures", "Files of recordings that could not be written.", failed)
    lost = counters["recording_items_lost"]
    yield _counter("recording_lost_items", "Frames, events and commands that are not recorded.", lost)
    redacted = counters["secrets_redacted"]
    yield _counter("recording_redacted", "Secrets that were left out of recordings.", redacted)


def _of_memory(gateway: App, held: _Held) -> Iterator[Metric]:
    memory, clients, sessions = gateway.memory, held.client_memory, held.session_memory
    holders = {("clients",): clients, ("sessions",): sessions, (OTHER,): max(0, memory.used - clients - sessions)}
    yield _gauge("memory_bytes", "Bytes that peers make the gateway hold, by holder.", holders, ("holder",))
    yield _gauge("memory_limit_bytes", "Bytes that peers may make the gateway hold.", memory.limit)
    yield _counter("memory_relieved", "Links cut and sessions shortened because memory ran out.", memory.relieved)


def _of_loop(heartbeat: LoopHeartbeat) -> Metric:
    lag, help_text = heartbeat.lag, "How late the timers of the event loop were, four times a second."
    return HistogramMetricFamily("dragoman_loop_lag_seconds", help_text, buckets=_buckets(lag), sum_value=lag.total)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the buckets of a histogram as Prometheus names them."""
    return list(zip((*map(str, histogram.bounds), "+Inf"), map(float, histogram.count_up_to()), strict=True))


def _gauge(name: str, help_text: str, values: Values, labels: Labels = ()) -> Metric:
    return _filled(GaugeMetricFamily(f"dragoman_{name}", help_text, labels=labels), values)


def _counter(name: str, help_text: str, values: Values, labels: Labels = ()) -> Metric:
    return _filled(CounterMetricFamily(f"dragoman_{name}", help_text, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for labels, value in values.items() if isinstance(values, Mapping) else [((), values)]:
        family.add_metric(labels, value)
    return family
