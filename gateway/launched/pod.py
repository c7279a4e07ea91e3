"""Run `dragoman-pod`, which an unchanged TUI or parent pod starts in place of a pod (docs/dialects/pod.md, section 2).

The launcher knows only a program path ($INSOMNIA_POD_COMMAND), so the environment selects the route (route.py). The
program listens at the socket of this pod.

    --overlay TOML        a manifest, used only for its name: `[pod] name = "x"`, `pod.name = "x"`, or `name`
    --pod NAME            the name (before the overlay's); resume the conversation of this pod
    --session UUID        resume this conversation, if the backend has several
    --require-pod-state   restore a pod: fail if no conversation is kept for its name
    --store DIR           the folder of the pods' sessions, where the conversation of the name is kept
    --callback SOCKET     the parent pod, to which ends of runs and of the program are reported (parent.py), and which
                          finds the state of its child in a file (state_files.py)
    --adopt               accepted and ignored: the gateway claims no scope

Without `--pod` and a name in the overlay, the pod has the route's name. Once it accepts connections it prints the pods'
ready line on stderr. It ends on SIGTERM, on SIGINT, and when a client sends `shutdown`, because the launcher of a pod
expects that.
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

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.ingress import NEW
from dragoman.gateway.launched.parent import Parent
from dragoman.gateway.launched.route import choose_route, make_parser, run_program
from dragoman.gateway.launched.state_files import ChildState, Conversation, KeptConversation
from dragoman.gateway.observability import logs
from dragoman.gateway.pods.folder import check_name, sessions_directory
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session
from dragoman.mappings.errors import ConfigError

READY = "INSOMNIA-READY\t{name}\t{path}"

log = structlog.get_logger("dragoman.pod")


class Launch(Struct, frozen=True, kw_only=True):
    """The pod's name, and a configuration whose only route listens at the pod's socket.

    `kept` stores the conversation of the name; None if the backend has only one. `callback` is the parent's socket, or
    "", and `child_state` the state that the parent reads.
    """

    name: str
    config: Config
    kept: KeptConversation | None = None
    callback: str = ""
    child_state: ChildState | None = None


def main() -> None:
    """Run until stopped. Exit codes: 0 success, 1 failure, 2 bad usage or configuration."""
    run_program(lambda: _serve(launch(sys.argv[1:], os.environ)))


def launch(arguments: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """Parse arguments and environment; raise ConfigError if a setting is missing."""
    options = _options(arguments)
    whole, route = choose_route(environment)
    name = check_name(options.pod or _overlay_name(options.overlay) or route.name)
    kept, session = None, options.session
    if registry.upstream(route.upstream).single_session:
        session = ""  # there is no other
    else:
        kept = KeptConversation(_sessions(options, environment), name)
        if options.pod and not session:
            session = kept.read(route.name, str(route.upstream))
            if options.require_pod_state and not session:
                raise ConfigError(f"pod state missing for {name}: no conversation of route {route.name} is kept for it")
        session = session or (NEW if options.callback else "")  # a child's task begins a conversation
    listen = Endpoint(dialect="pod", transport="name", address=name, options=(("session", session),) if session else ())
    config = structs.replace(whole, routes=(structs.replace(route, listen=(listen,)),))
    child_state = ChildState(_sessions(options, environment), name) if options.callback else None
    return Launch(name=name, config=config, kept=kept, callback=options.callback, child_state=child_state)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser("pod")
    parser.add_argument("--overlay", metavar="TOML", default="", help="the text of a manifest, which names the pod")
    parser.add_argument("--pod", metavar="NAME", default="", help="the pod's name; its kept conversation is continued")
    parser.add_argument("--session", metavar="UUID", default="", help="continue this conversation")
    parser.add_argument(
        "--require-pod-state", action="store_true", help="with --pod: fail if no conversation is kept for the name"
    )
    parser.add_argument(
        "--store", metavar="DIR", default="", help="the directory where the conversation of each name is kept"
    )
    parser.add_argument(
        "--callback", metavar="SOCKET", default="", help="report turn_ended, errored and shut_down to this parent pod"
    )
    parser.add_argument("--adopt", action="store_true", help=argparse.SUPPRESS)
    known, unknown = parser.parse_known_args(arguments)
    if unknown:  # a newer launcher may send new arguments: serve it anyway
        log.warning("ignored unknown arguments", arguments=unknown)
    return known


def _sessions(options: argparse.Namespace, environment: Mapping[str, str]) -> Path:
    """Return the folder of the pods' sessions."""
    return Path(options.store) if options.store else sessions_directory(environment)


def _overlay_name(overlay: str) -> str:
    """Return the pod's name in a manifest, or ""."""
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
    own: Session | None = None

    def attend(session: Session) -> None:
        nonlocal own
        own = session
        if launched.kept is not None:
            _keep(launched, launched.kept, session)
        if launched.child_state is not None:
            launched.child_state.write(session.state.id)

    def report_run(session: Session, run: Run) -> None:
        if parent is not None and session is own:
            parent.report_turns(run, app.spawn)

    def ready(endpoint: str) -> None:
        nonlocal is_ready
        is_ready = True
        if launched.child_state is not None:
            launched.child_state.write()
        path = endpoint.removeprefix("pod+unix:")
        logs.write_line(READY.format(name=launched.name, path=path), sys.stderr)

    app = App(launched.config, ends_with_client=True, attend=attend, on_run=report_run)
    app.on_signals()
    try:
        await app.run(ready)
    finally:
        if launched.child_state is not None:
            launched.child_state.remove()
        if parent is not None and is_ready:
            await parent.report_shutdown()


def _keep(launched: Launch, kept: KeptConversation, session: Session) -> None:
    """Store the conversation id of a session, once its backend has opened it, for the next process of this name."""
    (route,) = launched.config.routes
    if session.state.backend_ids is not None:
        known_as = registry.upstream(route.upstream).public_ids(session.state.id, session.state.backend_ids)
        kept.write(
            Conversation(pod_name=launched.name, route=route.name, upstream=str(route.upstream), session=known_as[-1])
        )
