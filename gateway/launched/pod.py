"""`dragoman-pod`: a program that is launched as a pod is, by an unchanged TUI or parent pod
(docs/dialects/pod.md, section 2).

They know a single program path ($INSOMNIA_POD_COMMAND), so which route is served the environment says (route.py); the
program listens where this pod's socket belongs.

    --overlay TOML        a manifest's text, of which the name is taken: `[pod] name = "x"`, `pod.name = "x"`, or `name`
    --pod NAME            the name, before the overlay's; go on with the conversation that this pod had (kept.py)
    --session UUID        go on with this conversation, where the backend has several
    --require-pod-state   a pod is restored: it is an error if no conversation is kept for its name
    --store DIR           where the pods keep their sessions, and the conversation behind the name is kept
    --callback SOCKET     the parent pod, to which the ends of runs and of the program are reported (parent.py)
    --adopt               taken, and without effect: the gateway claims no scope

Without `--pod` and an overlay's name the pod is called after the route. Once it accepts it says so on stderr, as pods
do. It ends on SIGTERM and SIGINT, and when a client says `shutdown`: whoever launched a pod expects its process to end
then.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
import tomli
from msgspec import Struct, structs

from dragoman.gateway import logs, registry
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.launched.kept import Conversation, KeptConversation
from dragoman.gateway.launched.parent import Parent
from dragoman.gateway.launched.route import chosen, run
from dragoman.gateway.pods.runtime import check_name, sessions_directory
from dragoman.gateway.session.session import Session
from dragoman.mappings.errors import ConfigError

__all__ = ["Launch", "launch", "main"]

DESCRIPTION = "A gateway that is launched as a pod is; DRAGOMAN_CONFIG names its configuration."
READY = "INSOMNIA-READY\t{name}\t{path}"

log = structlog.get_logger("dragoman.pod")


class Launch(Struct, frozen=True, kw_only=True):
    """What to run: the pod's name, and a configuration whose one route listens where the pod does.

    `kept` is where the conversation behind the name is kept, None where the backend has no other. `callback` is the
    parent's socket, "" without a parent.
    """

    name: str
    config: Config
    kept: KeptConversation | None = None
    callback: str = ""


def main() -> None:
    """Run until told to end. Exit codes: 0 well, 1 the work failed, 2 bad usage or configuration."""
    run(lambda: _serve(launch(sys.argv[1:], os.environ)))


def launch(arguments: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """Read arguments and environment; ConfigError says what is missing."""
    options = _options(arguments)
    whole, route = chosen(environment)
    name = check_name(options.pod or _overlay_name(options.overlay) or route.name)
    kept, session = None, options.session
    if registry.upstream(route.upstream).single_session:
        session = ""  # there is no other
    else:
        folder = Path(options.store) if options.store else sessions_directory(environment)
        kept = KeptConversation(folder, name)
        if options.pod and not session:
            session = kept.read(route.name, str(route.upstream))
            if options.require_pod_state and not session:
                raise ConfigError(f"pod state missing for {name}: no conversation of route {route.name} is kept for it")
    listen = Endpoint(
        dialect="pod", transport="name", address=name, options=(("session", session),) if session else ()
    )  # fmt: skip
    config = structs.replace(whole, routes=(structs.replace(route, listen=(listen,)),))
    return Launch(name=name, config=config, kept=kept, callback=options.callback)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dragoman-pod", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--overlay", metavar="TOML", default="", help="a manifest's text; its name is taken")
    parser.add_argument(
        "--pod", metavar="NAME", default="", help="the pod's name; go on with the conversation that it had"
    )
    parser.add_argument("--session", metavar="UUID", default="", help="go on with this conversation")
    parser.add_argument(
        "--require-pod-state", action="store_true", help="with --pod: fail if no conversation is kept for the name"
    )
    parser.add_argument(
        "--store", metavar="DIR", default="", help="where the conversation behind a name is kept: the pods' sessions"
    )
    parser.add_argument(
        "--callback", metavar="SOCKET", default="", help="report turn_ended, errored and shut_down to this parent pod"
    )
    parser.add_argument("--adopt", action="store_true", help=argparse.SUPPRESS)
    known, unknown = parser.parse_known_args(arguments)
    if unknown:  # a later launcher knows more of pods than we do: it is served all the same
        log.warning("arguments that mean nothing here", arguments=unknown)
    return known


def _overlay_name(overlay: str) -> str:
    """The pod's name in a manifest, "" if it has none."""
    try:
        table = tomli.loads(overlay)
    except tomli.TOMLDecodeError as error:
        raise ConfigError(f"--overlay is not TOML: {error}") from error
    pod = table.get("pod")
    name = pod.get("name") if isinstance(pod, dict) else table.get("name")
    return name if isinstance(name, str) else ""


async def _serve(launched: Launch) -> None:
    parent = Parent(launched.callback, launched.name) if launched.callback else None
    is_ready = False

    def attend(session: Session) -> None:
        if launched.kept is not None:
            _keep(launched, launched.kept, session)
        if parent is not None:
            session.on_run = lambda run: parent.hear(run, app.spawn)

    def ready(endpoint: str) -> None:
        nonlocal is_ready
        is_ready = True
        path = endpoint.removeprefix("pod+unix:")
        logs.tell(READY.format(name=launched.name, path=path), sys.stderr)

    app = App(launched.config, ends_with_client=True, attend=attend)
    app.on_signals()
    try:
        await app.run(ready)
    finally:
        if parent is not None and is_ready:
            await parent.shut_down()


def _keep(launched: Launch, kept: KeptConversation, session: Session) -> None:
    """Keep the conversation of this session for the next process of the same name, once the backend has opened it."""
    (route,) = launched.config.routes
    if session.state.backend_ids is not None:
        known_as = registry.upstream(route.upstream).public_ids(session.state.id, session.state.backend_ids)
        kept.write(
            Conversation(
                pod_name=launched.name, route=route.name, upstream=str(route.upstream), session=known_as[-1]
            )
        )  # fmt: skip
