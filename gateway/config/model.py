"""What can be configured: limits and routes, as frozen structs. Each limit says why it is what it is.

check.py reads them from a file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dragoman.gateway.endpoint import Endpoint

__all__ = ["Config", "ConfigFile", "Limits", "Recording", "Route", "RouteOptions", "RouteTable"]

Bytes = Annotated[int, Meta(ge=1024)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Overflow = Literal["coalesce", "disconnect"]
Approvals = Literal["ask", "deny", "approve"]


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=None):
    """Every bound of the gateway. Sizes in bytes, times in seconds."""

    max_message: Bytes = 16 * 1024 * 1024  # the largest tool results seen are below 4 MiB
    message_parts: Count = 64  # of a ZeroMQ message: real ones have at most three
    outbox_soft: Bytes = 1024 * 1024  # past it a link keeps a cursor into the log instead of frames
    outbox_hard: Bytes = 16 * 1024 * 1024  # past it a link that asks and does not read is disconnected
    log_max: Count = 65_536  # events a session keeps in memory: three long turns
    log_bytes: Bytes = 32 * 1024 * 1024  # text of those events: twice the largest message
    transcript_max: Bytes = 16 * 1024 * 1024  # text a session keeps for history; what is older is dropped and counted
    catch_up: Count = 4_096  # events rendered at once for a link that fell behind
    connect_deadline: Seconds = 5.0  # below a pando call's 10 s and a smooth request's 30 s
    handshake_deadline: Seconds = 10.0  # a WebSocket client's whole request: real ones give up then themselves
    # clients at once: twice as many as sessions were measured with (docs/performance.md, section 3)
    links: Count = 10_000
    accept_deadline: Seconds = 30.0  # a pod that compacts lets a run wait; a smooth client gives up after 30 s
    open_deadline: Seconds = 9.0  # for a backend to open a session: a pando client gives up after 10 s
    cancel_deadline: Seconds = 10.0  # docs/translation.md, rule 3.4
    answer_deadline: Seconds = 240.0  # a question is denied then: below the backends' own 300 s
    answer_guard: Seconds = 1.0  # an answer that crossed a further question on its way is not taken for it
    drain_deadline: Seconds = 10.0  # SIGTERM: turns may finish until then
    reconnect_grace: Seconds = 2.0  # docs/translation.md, rule 4.10
    backoff_first: Seconds = 0.1
    backoff_max: Seconds = 5.0
    snapshot_wait: Seconds = 0.4  # a pod's prober waits 0.5 s for the first line
    session_ttl: Seconds = 3600.0  # docs/design.md, section 5
    children: Count = 16  # processes that run at once: a codewhale with its inner server takes some 100 MB
    restarts: Count = 5  # of one child within `restart_window`: what ends that often is left alone for the rest of it
    restart_window: Seconds = 60.0
    heartbeat: Seconds = 20.0  # smooth peers drop who is silent for 20 s


class Show(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a route's clients are shown (docs/translation.md, rule 3.8): of tools everything, or their names alone."""

    tools: Literal["all", "names"] = "all"


class Redact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stays out of recordings (docs/design.md, section 8). Tokens in frames and one-time codes do in any case.

    `patterns`: the user's own, kind -> regular expression. `paths`: JSON paths of what is never recorded. `salt`: with
    one the placeholders of equal secrets are equal in all recordings, without in each for itself. Text that streams is
    held back for a window at most.
    """

    enabled: bool = True
    patterns: dict[str, str] = {}
    paths: tuple[str, ...] = ()
    salt: str = ""
    window_bytes: Bytes = 64 * 1024  # docs/design.md, section 8
    window_seconds: Seconds = 2.0  # a kill -9 costs so much of a text that streams


class Recording(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is recorded, where, and how much of it is kept.

    `path` is a folder, or a new file. `links`: the frames of the backend and of the client whose turn it is, or of all
    clients. A file of `rotate_bytes` is followed by a further part. In a folder the oldest files are deleted that are
    more than `keep_count`, older than `keep_age` seconds, or beyond `keep_bytes` of all; without these keys nothing is.
    `compress`: closed files become NAME.jsonl.zst.
    """

    path: str
    links: Literal["turn", "all"] = "turn"
    rotate_bytes: Bytes = 256 * 1024 * 1024  # still opened by an editor in reasonable time
    keep_count: Count | None = None
    keep_age: Seconds | None = None
    keep_bytes: Bytes | None = None
    compress: bool = True
    redact: Redact = Redact()


class RouteOptions(Struct, frozen=True, kw_only=True):
    """What a route decides: the options that docs/translation.md and docs/design.md, section 5, name.

    `overflow`: a slow client gets merged text, or is disconnected. `approvals`: a question toward a client whose
    dialect has none is asked in words, denied, or (write confirmations alone) approved. `otp_resend`: after a right
    code the refused input is sent again. `pause`: toward a backend that cannot pause it is refused, or cancels.
    `open`: a client that opens a session where the backend holds one of somebody else's is refused, or attached to it.
    `share`: a session is everybody's, or its opener's alone. `publish`: who subscribes to everything is told of what is
    everybody's, or also of what is somebody's. `on_last_detach`: a turn goes on without clients, or is
    cancelled. `shutdown`: a client's `shutdown` ends its attachment, or the backend. `show`: what clients are shown.
    `file_roots`: attached files inside of these folders are handed to the backend as references.
    `record`: whether its sessions are recorded, where there is a [recording] at all.
    """

    overflow: Overflow = "coalesce"
    approvals: Approvals = "ask"
    otp_resend: bool = True
    pause: Literal["refuse", "cancel"] = "refuse"
    open: Literal["busy", "attach"] = "busy"
    share: Literal["all", "owner"] = "all"
    publish: Literal["shared", "all"] = "shared"
    on_last_detach: Literal["keep", "cancel"] = "keep"
    shutdown: Literal["client", "backend"] = "client"
    show: Show = Show()
    file_roots: tuple[str, ...] = ()
    record: bool = True


class Route(RouteOptions, frozen=True, kw_only=True):
    """Joins listeners to an upstream; `name` goes into the ids of its sessions."""

    name: str
    listen: tuple[Endpoint, ...]
    upstream: Endpoint


class RouteTable(RouteOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `[[route]]` of the file, before its endpoints are read.

    A route that only a launched program serves has no `listen`.
    """

    listen: list[str] = []
    upstream: str
    name: str = "default"


class ConfigFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file as it is written."""

    route: list[RouteTable]
    limits: Limits = Limits()
    recording: Recording | None = None


class Config(Struct, frozen=True, kw_only=True):
    """A checked configuration."""

    routes: tuple[Route, ...]
    limits: Limits = Limits()
    recording: Recording | None = None
