"""The options of a configuration as frozen structs: limits and routes. Each limit gives the reason for its value.

gateway/config/check.py reads them from a file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from dragoman.gateway.endpoint import Endpoint

LONGEST = 10 * 365 * 86_400  # seconds: ten years, which each clock and event loop can add to its time
MOST = 1_000_000_000
MEMORY_MIN = 1024 * 1024  # bytes: fewer would refuse the first client
Bytes = Annotated[int, Meta(ge=1024, le=1 << 50, extra={"unit": "bytes"})]
MessageBytes = Annotated[int, Meta(ge=1024, le=1 << 29, extra={"unit": "bytes"})]
"""Bytes of one message: the WebSocket parser counts four times as much with 32 bits."""
MaybeBytes = Annotated[int, Meta(ge=0, le=1 << 50, extra={"unit": "bytes"})]
Count = Annotated[int, Meta(ge=1, le=MOST)]
Rate = Annotated[float, Meta(ge=0.001, le=MOST, extra={"unit": "a second"})]
Seconds = Annotated[float, Meta(ge=0.001, le=LONGEST, extra={"unit": "seconds"})]
MaybeSeconds = Annotated[float, Meta(ge=0, le=LONGEST, extra={"unit": "seconds"})]
Secret = Annotated[str, Meta(extra_json_schema={"writeOnly": True})]
"""A secret text, which is masked wherever a configuration is shown."""
Role = Literal["watch", "send", "answer", "cancel", "open", "close", "admin"]
UpstreamAuth = Literal["own", "forward"]
Overflow = Literal["coalesce", "disconnect"]
Approvals = Literal["ask", "deny", "approve"]
Resource = Literal["as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack"]  # as in setrlimit(2)


class RouteLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=None):
    """The limits that a route may have of its own, in `[route.limits]`. Sizes are in bytes, times in seconds."""

    max_message: MessageBytes = 16 * 1024 * 1024  # the largest tool results seen are below 4 MiB
    max_command: Bytes = 1024 * 1024  # of a client; real ones are below 100 KiB, except attachments and stored messages
    message_values: Count = 16_384  # JSON values of a client's message: decoding them takes about 20 ms at worst
    message_parts: Count = 64  # parts of a ZeroMQ message: real ones have at most three
    outbox_soft: Bytes = 1024 * 1024  # above it a link keeps a cursor into the log instead of frames
    outbox_hard: Bytes = 16 * 1024 * 1024  # above it a further reply disconnects a link
    log_max: Count = 65_536  # events a session keeps in memory, above which text deltas are merged: three long turns
    log_bytes: Bytes = 32 * 1024 * 1024  # text of those events: twice the largest message
    transcript_max: Bytes = 16 * 1024 * 1024  # JSON of a session's history; older messages are dropped and counted
    catch_up: Count = 512  # events rendered at once for a link that fell behind: 2 to 4 ms
    connect_deadline: Seconds = 5.0  # below a pando call's 10 s and a smooth request's 30 s
    dials: Count = 32  # attempts to connect to a backend at once: one takes 1 to 5 ms, so 10,000 sessions wait seconds
    # failed connections to a backend a second, above which sessions fail without one: each takes some 2 ms of CPU
    failed_dial_rate: Rate = 10.0
    failed_dial_burst: Count = 100  # so many at once: the sessions that dial while their backend restarts
    callers: Count = 1024  # pando: connections that make calls; a view abandons one every few seconds
    subscribers: Count = 256  # pando: connections for publications; a project has a terminal and a few viewers
    subscriptions: Count = 32  # pando: topics of one of them; a real subscriber has at most ten
    # sessions of one principal at once, twice as many as `links`; without authentication all clients are one principal
    principal_sessions: Count = 20_000
    # sessions of one client that its backend has not opened yet: each costs a connection and 2 to 4 ms of CPU
    opening_sessions: Count = 64
    message_rate: Rate = 5_000.0  # messages and pings of one client a second: 190 times the busiest recorded one
    message_burst: Count = 100_000  # so many at once
    fault_rate: Rate = 100.0  # bad messages of one client a second: a person's mistakes are far fewer
    fault_burst: Count = 2_500  # so many at once: 100 times those of the recorded client that sends only bad ones
    pending_commands: Count = 256  # of a session, without the backend's answer; a person has one or two
    unsent_commands: Count = 64  # of a session, during one attempt to connect: more than a client sends by hand
    accept_deadline: Seconds = 30.0  # a compacting pod delays a run; a smooth client gives up after 30 s
    open_deadline: Seconds = 9.0  # for a backend to open a session or tell its history: below a pando call's 10 s
    cancel_deadline: Seconds = 10.0  # docs/translation.md, rule 3.4
    answer_deadline: Seconds = 240.0  # an unanswered question is then denied: below the backends' 300 s
    answer_guard: Seconds = 1.0  # an answer this soon after a question was meant for the one before
    reconnect_grace: Seconds = 2.0  # docs/translation.md, rule 4.10
    backoff_first: Seconds = 0.1
    backoff_max: Seconds = 5.0
    # failures within `fail_timeout`, after which new sessions go to another upstream; one may be a restart
    max_fails: Count = 3
    fail_timeout: Seconds = 10.0  # also the time until such an upstream is tried again, as long as nginx's
    snapshot_wait: Seconds = 0.4  # a pod's prober waits 0.5 s for the first line
    session_ttl: Seconds = 3600.0  # a session without clients is then forgotten (docs/design.md, section 5)
    restarts: Count = 5  # restarts of one child within `restart_window`; no more until the window has passed
    restart_window: Seconds = 60.0
    heartbeat: Seconds = 20.0  # smooth peers drop a connection that is silent for 20 s


class Limits(RouteLimits, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=None):
    """Every limit of the gateway: those of all routes, and those that the whole gateway has. Units are the same."""

    # of all that peers make the gateway hold; 0: a quarter of the machine's or cgroup's above 64 MiB, at most 1 GiB
    memory: MaybeBytes = 0
    handshake_deadline: Seconds = 10.0  # a WebSocket client's whole request: real clients give up after this time
    # clients at once: twice as many as sessions were measured with (docs/measurements.md, section 3)
    links: Count = 10_000
    # connections of one address at once: below `links`, so that one address leaves room for others
    address_links: Count = 8_000
    connection_rate: Rate = 200.0  # connections of one address a second; the demos and real clients make a few
    connection_burst: Count = 10_000  # so many at once: all clients after a restart (docs/measurements.md, section 3)
    auth_delay: MaybeSeconds = 1.0  # before a failed authentication is answered: a person who mistypes waits no longer
    drain_deadline: Seconds = 10.0  # time for open turns to finish after SIGTERM
    children: Count = 16  # child processes at once: a codewhale with its inner server takes some 100 MB


class Show(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parts of tool calls that a route's clients see (docs/translation.md, rule 3.8): everything, or only names."""

    tools: Literal["all", "names"] = "all"


class Redact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The redaction of recordings (docs/design.md, section 8). Tokens in frames and one-time codes are always redacted.

    `patterns`: kind -> regular expression of the user. `paths`: JSON paths of values that are never recorded. `salt`:
    makes the placeholders of equal secrets equal in all recordings, instead of within one. Streaming text is held back
    for at most one window.
    """

    enabled: bool = True
    patterns: dict[str, str] = {}
    paths: tuple[str, ...] = ()
    salt: Secret = ""
    window_bytes: Bytes = 64 * 1024  # docs/design.md, section 8
    window_seconds: Seconds = 2.0  # a kill -9 loses this much of streaming text


class Recording(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of recording: what, where, and how much is kept.

    `path`: a folder, or a new file. `links`: record the frames of the backend and of the turn's client, or of all
    clients. `rotate_bytes`: size after which the next part begins. `keep_count`, `keep_age` (seconds), `keep_bytes`:
    limits of a folder, beyond which the oldest files are deleted; without them none are. `compress`: closed files
    become NAME.jsonl.zst.
    """

    path: str
    links: Literal["turn", "all"] = "turn"
    rotate_bytes: Bytes = 256 * 1024 * 1024  # still opened by an editor in reasonable time
    keep_count: Count | None = None
    keep_age: Seconds | None = None
    keep_bytes: Bytes | None = None
    compress: bool = True
    redact: Redact = Redact()


class Ops(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the ops port (docs/operations.md).

    `listen`: `http://HOST:PORT` or `unix:PATH`. `tokens`: each lets its bearer use everything; without one the port
    must be on loopback. `hosts`: names by which other machines reach the port. `stuck_after`: seconds without a turn of
    the event loop, after which the gateway counts as not alive.
    """

    listen: str
    tokens: tuple[Secret, ...] = ()
    hosts: tuple[str, ...] = ()
    stuck_after: Seconds = 5.0  # a step of the event loop takes some 10 ms


class RouteOptions(Struct, frozen=True, kw_only=True):
    """The options of a route (docs/translation.md; docs/design.md, section 5).

    `upstream_auth`: the backend gets the token of the endpoint, or that of the client that opened the session.
    `overflow`: merge text for a slow client, or disconnect it. `approvals`: for clients without approvals, ask in
    words, deny, or approve (only write confirmations). `otp_resend`: send a refused input again after a correct code.
    `pause`: if the backend cannot pause, refuse or cancel. `open`: if the backend's only session is another client's,
    refuse or attach. `share`: a session belongs to all clients, or to its opener; `auto` means `owner` where clients
    are authenticated, else `all`. `roles`: principal, group or `*` -> what it may do; without any, an authenticated
    client may do everything but `admin`. `insecure`: other machines may connect without authentication.
    `on_last_detach`: keep or cancel a turn without clients. `shutdown`: a client's `shutdown` ends its attachment, or
    the backend. `show`: what clients see. `file_roots`: attached files below these folders are passed as references.
    `record`: record sessions, if there is a [recording].

    For a backend that is a child process: `env` names further variables of its environment, NAME or NAME=VALUE.
    `rlimits`: its resource limits, in the units of setrlimit(2). `reap`: processes that end with the child, those of
    its process group, or all that it started.
    """

    upstream_auth: UpstreamAuth = "own"
    overflow: Overflow = "coalesce"
    approvals: Approvals = "ask"
    otp_resend: bool = True
    pause: Literal["refuse", "cancel"] = "refuse"
    open: Literal["busy", "attach"] = "busy"
    share: Literal["auto", "all", "owner"] = "auto"
    roles: dict[str, tuple[Role, ...]] = {}
    insecure: bool = False
    on_last_detach: Literal["keep", "cancel"] = "keep"
    shutdown: Literal["client", "backend"] = "client"
    show: Show = Show()
    file_roots: tuple[str, ...] = ()
    record: bool = True
    env: tuple[str, ...] = ()
    rlimits: dict[Resource, Annotated[int, Meta(ge=0)]] = {}
    reap: Literal["group", "all"] = "group"


class Route(RouteOptions, frozen=True, kw_only=True):
    """A route joins listeners to an upstream; `name` becomes part of its session ids."""

    name: str
    listen: tuple[Endpoint, ...]
    upstream: Endpoint
    failover: tuple[Endpoint, ...] = ()
    """The further upstreams of the route, which are used in this order if the first is not healthy."""
    limits: dict[str, int | float] = {}
    """The limits that differ from those of the gateway: the name of a field of RouteLimits -> its value."""
    authenticated: bool = False
    """True if each client of the route has a principal of its own; else all are `local`."""

    @property
    def upstreams(self) -> tuple[Endpoint, ...]:
        """Return all upstreams of the route, in the order in which new sessions try them."""
        return (self.upstream, *self.failover)

    def apply_limits(self, limits: Limits) -> Limits:
        """Return the limits of the gateway with those of this route in place of them."""
        return structs.replace(limits, **self.limits) if self.limits else limits


class RouteTable(RouteOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `[[route]]` of the file, before its endpoints are parsed.

    A route that only a launched program serves has no `listen`. `upstream` is one endpoint, or several in the order in
    which new sessions try them. `limits` are those of this route alone; all others are those of [limits].
    """

    name: Annotated[str, Meta(min_length=1)] = "default"
    listen: list[str] = []
    upstream: str | list[str]
    limits: RouteLimits = RouteLimits()


class Jwt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The JSON Web Tokens that WebSocket listeners accept (the extra `dragoman[jwt]`).

    `secret`: for HS256, written as a token is. `jwks`: the file or URL of public keys, for RS256 and ES256. `audience`:
    the `aud` that tokens must have. `issuer`: their `iss`, if that is to be checked. `leeway`: seconds by which two
    clocks may differ. `groups`: the claim with the names of groups; `ops` there is `group:ops` in `roles`.
    """

    secret: Secret = ""
    jwks: str = ""
    audience: str = ""
    issuer: str = ""
    leeway: MaybeSeconds = 30.0
    groups: str = "groups"

    @property
    def is_used(self) -> bool:
        return bool(self.secret or self.jwks)


class Auth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The credentials that WebSocket listeners accept. Without any, they accept everybody.

    `tokens`: name -> bearer token, written as `env:VARIABLE`, `file:PATH` or the token itself; the principal is
    `token:NAME`.
    """

    tokens: dict[str, Secret] = {}
    jwt: Jwt = Jwt()


class ConfigFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a configuration file."""

    route: list[RouteTable]
    limits: Limits = Limits()
    recording: Recording | None = None
    ops: Ops | None = None
    auth: Auth = Auth()
    principals: dict[str, tuple[str, ...]] = {}


class Config(Struct, frozen=True, kw_only=True):
    """A checked configuration.

    `inherit_env`: child processes get the gateway's whole environment, less its own variables. A configuration that was
    read from a file does not have it: its children get only the variables that gateway/transports/stdio.py
    lists, and those that their route names.
    """

    routes: tuple[Route, ...]
    limits: Limits = Limits()
    recording: Recording | None = None
    inherit_env: bool = True
    ops: Ops | None = None
    auth: Auth = Auth()
    principals: dict[str, tuple[str, ...]] = {}
    """Person -> the principals that are this person."""
    given: frozenset[tuple[str | int, ...]] = frozenset()
    """The keys that the file has; all others have their defaults."""
    secrets: frozenset[tuple[str | int, ...]] = frozenset()
    """The keys whose values were read with `${file:PATH}`."""
