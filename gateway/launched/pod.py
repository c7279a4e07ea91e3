"""`dragoman-pod`: a program that is launched as a pod is, by an unchanged TUI or parent pod (pod sheet, section 2).

They know a single program path ($INSOMNIA_POD_COMMAND), so which route is served the environment says (route.py); the
program listens where this pod's socket belongs.

    --overlay TOML        a manifest's text, of which the name is taken: `[pod] name = "x"`, `pod.name = "x"`, or `name`
    --pod NAME            the name; before the overlay's. Without either the pod is called after the route
    --session UUID        go on with this conversation, where the backend has several
    --require-pod-state   a pod is restored: go on with the newest conversation
    --adopt --callback SOCKET, --store DIR    taken, and without effect: we claim no scope and keep no pod's files

Once it accepts it says so on stderr, as pods do. It ends on SIGTERM and SIGINT, and when a client says `shutdown`:
whoever launched a pod expects its process to end then.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

import structlog
import tomli
from msgspec import Struct, structs

from gateway import logs, registry
from gateway.app import App
from gateway.config.model import Config
from gateway.endpoint import Endpoint
from gateway.launched.route import chosen, run
from gateway.pods.runtime import check_name
from gateway.routing.door import LATEST
from mappings.errors import ConfigError

__all__ = ["Launch", "launch", "main"]

DESCRIPTION = "A gateway that is launched as a pod is; DRAGOMAN_CONFIG names its configuration."
READY = "INSOMNIA-READY\t{name}\t{path}"

log = structlog.get_logger("dragoman.pod")


class Launch(Struct, frozen=True, kw_only=True):
    """What to run: the pod's name, and a configuration whose one route listens where the pod does."""

    name: str
    config: Config


def main() -> None:
    """Run until told to end. Exit codes: 0 well, 1 the work failed, 2 bad usage or configuration."""
    run(lambda: _serve(launch(sys.argv[1:], os.environ)))


def launch(arguments: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """Read arguments and environment; ConfigError says what is missing."""
    options = _options(arguments)
    whole, route = chosen(environment)
    name = check_name(options.pod or _overlay_name(options.overlay) or route.name)
    session = options.session or (LATEST if options.require_pod_state else "")
    has_one = registry.upstream(route.upstream).one_session
    listen = Endpoint(
        dialect="pod", transport="name", address=name,
        options=(("session", session),) if session and not has_one else (),
    )  # fmt: skip
    return Launch(name=name, config=structs.replace(whole, routes=(structs.replace(route, listen=(listen,)),)))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dragoman-pod", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--overlay", metavar="TOML", default="", help="a manifest's text; its name is taken")
    parser.add_argument("--pod", metavar="NAME", default="", help="the pod's name")
    parser.add_argument("--session", metavar="UUID", default="", help="go on with this conversation")
    parser.add_argument("--require-pod-state", action="store_true", help="go on with the newest conversation")
    for taken in ("--callback", "--store"):
        parser.add_argument(taken, help=argparse.SUPPRESS)
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
    app = App(launched.config, ends_with_client=True)
    app.on_signals()

    def ready(endpoint: str) -> None:
        path = endpoint.removeprefix("pod+unix:")
        logs.tell(READY.format(name=launched.name, path=path), sys.stderr)

    await app.run(ready)
