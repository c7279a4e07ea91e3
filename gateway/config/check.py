"""Check a configuration file and report all errors, each with its line and key.

`dragoman check` prints them, and `dragoman serve` refuses to start with the same text. First the shape is checked:
unknown, missing and ill-typed keys. Then the values are checked: endpoints, and keys that exclude each other.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli
from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.config.access import (
    auth_faults,
    forward_faults,
    jwt_faults,
    person_faults,
    public_faults,
    resolve_access,
    role_faults,
    share_faults,
)
from dragoman.gateway.config.lines import Found, KeyPath, TomlLines, format_key
from dragoman.gateway.config.model import MEMORY_MIN, Auth, Config, ConfigFile, Jwt, Limits, Ops, Route, RouteOptions
from dragoman.gateway.config.ops_address import faults_of_ops, parse_ops_address
from dragoman.gateway.config.references import FileSecrets, Interpolation, resolve_paths
from dragoman.gateway.config.route_rules import Draft, fault_of, route_faults
from dragoman.gateway.config.shape import faults, table_at, texts_in
from dragoman.gateway.config.source import read_small, why_guessable
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording import places as recording_places
from dragoman.mappings.errors import ConfigError

MAX_FILE = 1024 * 1024  # bytes: a route takes about 300
PROBLEMS_MAX = 100  # problems that are shown: the line of each is searched
READABLE = stat.S_IRGRP | stat.S_IROTH


class Problem(Struct, frozen=True, kw_only=True):
    """An error or a warning about a configuration.

    `line` is None for a file that cannot be read; `path` is "" if no key is concerned.
    """

    file: str
    line: int | None
    path: str
    text: str
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [where, *(["warning"] if self.level == "warning" else []), *([self.path] if self.path else [])]
        return ": ".join((*parts, self.text))


class Checked(Struct, frozen=True, kw_only=True):
    """The result of a check. `config` is None if there is an error, `lines` if the file is not TOML."""

    problems: tuple[Problem, ...]
    config: Config | None = None
    lines: TomlLines | None = None

    @property
    def errors(self) -> list[Problem]:
        """The problems because of which there is no configuration."""
        return [problem for problem in self.problems if problem.level == "error"]

    def valid_config(self) -> Config:
        """Return the configuration; raise ConfigError with one line for each error."""
        if self.config is None:
            raise ConfigError("\n".join(map(str, self.errors)))
        return self.config


def load(path: Path, *, listens: bool = True, starts: bool = True, in_force: Config | None = None) -> Config:
    """Return the configuration of a file; raise ConfigError with one line for each error.

    Without `listens` a route needs no listener: the launched program that serves it knows where to listen. Without
    `starts` no gateway is started with this configuration, so its recording may exist. `in_force` is the configuration
    that it replaces, whose recording may exist.
    """
    return check(path, listens=listens, starts=starts, in_force=in_force).valid_config()


def check(path: Path, *, listens: bool = True, starts: bool = True, in_force: Config | None = None) -> Checked:
    """Read a configuration file and return its errors, in the order of lines: PROBLEMS_MAX, and how many more."""
    parsed = _parse(path)
    if isinstance(parsed, Problem):
        return Checked(problems=(parsed,))
    text, table = parsed
    lines = TomlLines(text)
    folder = path.absolute().parent
    interpolation, secrets = Interpolation(folder, os.environ), FileSecrets(folder)
    table = secrets.read(resolve_paths(interpolation.expand(table), folder))
    recording = in_force.recording if in_force is not None else None
    recorded = recording.path if recording is not None else ""
    wrong, drafts = _read(table, listens, recorded if starts else None)
    missing = dict([*secrets.faults, *interpolation.faults])  # the fault of a reference replaces that of its file
    wrong = [
        *missing.items(),
        *((key, interpolation.hide_values(message)) for key, message in wrong if key not in missing),
    ]
    shared = _shared(path, drafts, secrets) if _can_others_read(path) else []
    shared = [found for found in shared if found[0] not in interpolation.replaced] + [
        *_hazards(drafts),
        *_roots(drafts),
    ]
    levels: list[tuple[list[Found], Literal["error", "warning"]]] = [(wrong, "error"), (shared, "warning")]
    every = [(key, message, level) for found, level in levels for key, message in found]
    problems = [
        Problem(file=str(path), line=lines.of(key), path=format_key(key), text=message, level=level)
        for key, message, level in every[:PROBLEMS_MAX]
    ]
    problems.sort(key=lambda problem: problem.line or 0)
    if more := len(every) - len(problems):
        text = f"{more} more problems of the file are not shown; correct the others first"
        problems.append(Problem(file=str(path), line=None, path="", text=text, level=every[PROBLEMS_MAX][2]))
    config = None if wrong else _config(table, interpolation.secrets)
    return Checked(problems=tuple(problems), config=config, lines=lines)


def _parse(path: Path) -> Problem | tuple[str, dict[str, Any]]:
    """Return the text of a file and its parsed table, or the Problem that prevents this."""
    try:
        data = read_small(path, MAX_FILE)
    except ConfigError as error:
        return Problem(file=str(path), line=None, path="", text=str(error))
    try:
        text = data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
        return text, tomli.loads(text)
    except UnicodeDecodeError as error:
        line, why = data.count(b"\n", 0, error.start) + 1, "not TOML: this line is not UTF-8"
    except tomli.TOMLDecodeError as error:
        line, why = error.lineno, f"not TOML: {error.msg} (column {error.colno})"
    except (RecursionError, ValueError) as error:  # lists in lists without end; a number of thousands of digits
        line, why = None, f"not TOML that dragoman can read: {error}"
    return Problem(file=str(path), line=line, path="", text=why)


def check_route(route: Route) -> None:
    """Check a route that was made without a file; raise ConfigError with the first error."""
    for endpoint in route.listen:
        registry.check_listen(endpoint)
        registry.check_place(endpoint)
    for upstream in route.upstreams:
        registry.check_upstream(upstream)
    draft = Draft(
        at=(),
        table={"name": route.name, "shutdown": route.shutdown},
        listen={("listen", index): one for index, one in enumerate(route.listen)},
        upstreams={("upstream", index): one for index, one in enumerate(route.upstreams)},
    )
    for _, text in route_faults([draft]):
        raise ConfigError(text)


def _read(table: dict[str, Any], listens: bool, recorded: str | None) -> tuple[list[Found], list[Draft]]:
    """Return all errors of a table, and its routes.

    `recorded` is where the gateway records now, "" if it does not, None if any recording may exist.
    """
    found: list[Found] = []
    wrong = "routes" if "routes" in table else "route" if isinstance(table.get("route"), dict) else ""
    if wrong:
        found.append(((wrong,), "write [[route]], in two brackets, above each route; its name is its key `name`"))
        table = {key: value for key, value in table.items() if key != wrong}
    elif not table.get("route"):
        found.append(((), "no [[route]]: a gateway needs at least one"))
    table = {"route": [], **table}
    found += faults(table, ConfigFile)
    drafts = []
    for index, route in enumerate(table["route"] if isinstance(table["route"], list) else []):
        if isinstance(route, dict):
            drafts.append(_draft(("route", index), route, found, listens))
    found += route_faults(drafts)
    auth = table.get("auth")
    found += jwt_faults(table_at(auth, "jwt"))
    known = _known_auth(auth)
    found += [*auth_faults(auth), *_shares(drafts, known), *_names(drafts, known, table.get("principals"))]
    wrong_keys = {key for key, _ in found}
    found += _limits(("limits",), table.get("limits"), {}, wrong_keys)
    for draft in drafts:
        found += _limits((*draft.at, "limits"), draft.table.get("limits"), table.get("limits"), wrong_keys)
    found += [*_recording(table.get("recording"), recorded), *_redact(table.get("recording"))]
    found += _ops(table.get("ops"), drafts)
    return found, drafts


def _draft(at: KeyPath, table: dict[str, Any], found: list[Found], listens: bool) -> Draft:
    listen, upstream = table.get("listen", []), table.get("upstream")
    if listens and "listen" not in table:
        found.append((at, "the key 'listen' is missing; only dragoman-pod and dragoman-codewhale need none"))
    elif listens and listen == []:
        found.append(((*at, "listen"), "must contain an endpoint"))
    if upstream == []:
        found.append(((*at, "upstream"), "must contain an endpoint"))
    for index, root in texts_in(table.get("file_roots")):
        if not root:  # to the system this would be the working folder
            found.append(((*at, "file_roots", index), "write a folder; without file_roots no attached file is passed"))
    return Draft(
        at=at,
        table=table,
        listen=_endpoints((*at, "listen"), listen if isinstance(listen, list) else [], found),
        upstreams=_endpoints((*at, "upstream"), upstream, found),
    )


def _endpoints(at: KeyPath, value: Any, found: list[Found]) -> dict[KeyPath, Endpoint]:
    """Return the endpoints of a list, or the only one, by their keys, after adding their errors to `found`."""
    texts = {(*at, index): text for index, text in enumerate(value)} if isinstance(value, list) else {at: value}
    read = {key: _endpoint(key, text, found) for key, text in texts.items()}
    return {key: endpoint for key, endpoint in read.items() if endpoint is not None}


def _endpoint(at: KeyPath, text: Any, found: list[Found]) -> Endpoint | None:
    """Return the endpoint written at this key, or None after adding its error to `found`."""
    if not isinstance(text, str):
        return None
    try:
        endpoint = parse(text)
        if "upstream" in at:
            registry.check_upstream(endpoint)
        else:
            registry.check_listen(endpoint)
            registry.check_place(endpoint)
    except ConfigError as error:
        found.append((at, str(error)))
        return None
    return endpoint


def _known_auth(table: Any) -> Auth:
    """Return an Auth that says which kinds of credentials `[auth]` has, as far as it can be read."""
    jwt = table_at(table, "jwt")
    return Auth(tokens=table_at(table, "tokens"), jwt=Jwt(jwks="set" if jwt.get("secret") or jwt.get("jwks") else ""))


def _shares(drafts: Sequence[Draft], known: Auth) -> Iterator[Found]:
    """Yield an error for each listener without the authentication that its route or its address needs."""
    for draft in drafts:
        share = draft.table.get("share")
        yield from share_faults(draft.listen, share, draft.table.get("roles"), known)
        if draft.table.get("insecure") is not True:
            yield from public_faults(draft.listen, known, "`insecure = true`")
        if draft.table.get("upstream_auth") == "forward":
            yield from forward_faults(draft.listen, draft.upstreams, known)
            if share == "all":
                text = "others would act with the token of the client that opened a session; write share = 'owner'"
                yield (*draft.at, "share"), text


def _names(drafts: Sequence[Draft], auth: Auth, persons: Any) -> Iterator[Found]:
    """Find names in `[principals]` and `roles` that no client can have."""
    for person, index, text in person_faults(persons, auth):
        yield ("principals", person, index), text
    for draft in drafts:
        for name, text in role_faults(draft.table.get("roles"), draft.listen.values(), auth, table_at(persons)):
            yield (*draft.at, "roles", name), text


def _limits(at: KeyPath, table: Any, common: Any, wrong: Set[KeyPath]) -> Iterator[Found]:
    """Find limits that are larger than the limit above them, and too little memory.

    A limit that is not in the table is the `common` one. One whose key is `wrong` is not compared.
    """
    own, others = table_at(table), table_at(common)
    memory = own.get("memory", 0)
    if at == ("limits",) and type(memory) is int and 0 < memory < MEMORY_MIN:
        yield (*at, "memory"), f"expected 0 or at least {MEMORY_MIN} bytes, got {memory}"
    values = {**others, **own}
    for less, more in (("outbox_soft", "outbox_hard"), ("backoff_first", "backoff_max")):
        low, high = (values.get(name, getattr(Limits(), name)) for name in (less, more))
        keys = {(*place, key) for place in (at, ("limits",)) for key in (less, more)}
        if not {less, more}.isdisjoint(own) and keys.isdisjoint(wrong) and low > high:
            yield (*at, less if less in own else more), f"{less} = {low} is more than {more} = {high}"


def _recording(table: Any, recorded: str | None) -> Iterator[Found]:
    """Check that recordings can be written, as far as that is known without trying, and that the keys fit a file."""
    path = table_at(table).get("path")
    if path == "":
        yield ("recording", "path"), "write a folder, or a new file NAME.jsonl; without [recording] nothing is recorded"
        return
    if not isinstance(path, str) or recorded is None or path == recorded:  # in use already
        return
    try:
        where = recording_places.place(path)
    except ConfigError as error:
        yield ("recording", "path"), str(error)
        return
    if isinstance(where, recording_places.OneFile):
        for key in ("keep_count", "keep_age", "keep_bytes"):
            if key in table:
                yield ("recording", key), f"{path} is a file; only a folder can have this key"


def _redact(table: Any) -> Iterator[Found]:
    """Check the patterns, the paths and the salt of `[recording.redact]`."""
    at, redact = ("recording", "redact"), table_at(table, "redact")
    if not redact:
        return
    # Only a file with such a table needs these.
    from dragoman.gateway.recording.redaction.paths import json_path
    from dragoman.gateway.recording.redaction.rules import pattern

    for kind, text in table_at(redact, "patterns").items():
        if isinstance(text, str):
            yield from fault_of((*at, "patterns", kind), pattern, kind, text)
    for index, text in texts_in(redact.get("paths")):
        yield from fault_of((*at, "paths", index), json_path, text)
    salt = redact.get("salt")
    if isinstance(salt, str) and salt and (why := why_guessable("salt", salt)):
        yield (*at, "salt"), why


def _ops(table: Any, drafts: Sequence[Draft]) -> Iterator[Found]:
    """Check the address of the ops port, that no listener has it, and that it needs a token beyond loopback."""
    try:
        ops = msgspec.convert(table, Ops)
    except msgspec.ValidationError:  # no table, or one whose faults are found already
        return
    found = list(faults_of_ops(ops))
    yield from ((("ops", *key), text) for key, text in found)
    places = () if any(key == ("listen",) for key, _ in found) else parse_ops_address(ops.listen).places
    for draft in drafts if places else ():
        for at, endpoint in draft.listen.items():
            if not set(places).isdisjoint(registry.places(endpoint)):
                yield ("ops", "listen"), f"{ops.listen}: {format_key(at)} listens there already"


def _can_others_read(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & READABLE)
    except OSError:  # it was deleted meanwhile
        return False


def _shared(path: Path, drafts: Sequence[Draft], secrets: FileSecrets) -> list[Found]:
    text = f"contains a secret, and other users may read this file; `chmod 600 {path}`"
    keys = [key for draft in drafts for key, upstream in draft.upstreams.items() if upstream.has_literal_secret]
    return [(key, text) for key in (*keys, *_secret_variables(drafts), *secrets.literal)]


def _secret_variables(drafts: Sequence[Draft]) -> Iterator[KeyPath]:
    """Find variables of child processes whose name says that the value is a secret."""
    for draft in drafts:
        for index, variable in texts_in(draft.table.get("env")):
            name, _, value = variable.partition("=")
            if value:
                from dragoman.gateway.recording.redaction.shapes import is_secret_name  # most files do not need it

                if is_secret_name(name):
                    yield (*draft.at, "env", index)


def _hazards(drafts: Sequence[Draft]) -> list[Found]:
    """Find listeners whose socket other users could replace, or whose certificate clients refuse."""
    return [
        (at, why) for draft in drafts for at, listen in draft.listen.items() if (why := registry.find_hazard(listen))
    ]


def _roots(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Find folders of attached files that do not exist."""
    for draft in drafts:
        for index, root in texts_in(draft.table.get("file_roots")):
            if root and not os.path.isdir(root):
                yield (*draft.at, "file_roots", index), f"there is no folder {root}, so no attached file is below it"


def _config(table: dict[str, Any], secrets: set[KeyPath]) -> Config:
    file = msgspec.convert(table, ConfigFile)
    upstreams = [[route.upstream] if isinstance(route.upstream, str) else route.upstream for route in file.route]
    routes = (
        Route(
            name=route.name,
            listen=tuple(map(parse, route.listen)),
            upstream=parse(first),
            failover=tuple(map(parse, others)),
            limits={name: getattr(route.limits, name) for name in given.get("limits", ())},
            **{name: getattr(route, name) for name in RouteOptions.__struct_fields__},
        )
        for route, given, (first, *others) in zip(file.route, table["route"], upstreams, strict=True)
    )
    return Config(
        limits=file.limits,
        recording=file.recording,
        inherit_env=False,
        ops=file.ops,
        auth=file.auth,
        principals=file.principals,
        routes=tuple(resolve_access(route, file.auth) for route in routes),
        given=frozenset(_keys_of(table)),
        secrets=frozenset(secrets),
    )


def _keys_of(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield every key of a table, with those of the tables in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, item in items:
        yield (*path, key)
        yield from _keys_of(item, (*path, key))
