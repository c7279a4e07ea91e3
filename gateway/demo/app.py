"""Serve the demo backend in any dialect that dragoman can listen in."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Line, Scripts
from dragoman.gateway.endpoint import Endpoint

DEFAULTS = Limits()


def demo_backend(endpoint: Endpoint, turns: Sequence[list[Line]] = (), limits: Limits = DEFAULTS) -> App:
    """Return an app that serves the scripted backend on `endpoint`; `turns` replace the bundled scripts.

    It holds as many sessions as real backends of the dialect: a pod has one for all clients.
    """
    one = registry.dialect(endpoint.dialect).single_session
    nowhere = Endpoint(dialect="pod" if one else "smooth", transport="demo", address="conversation")
    registry.check_listen(endpoint)
    registry.check_place(endpoint)
    route = Route(name="demo-backend", listen=(endpoint,), upstream=nowhere)
    app = App(
        Config(routes=(route,), limits=limits),
        make_backend=lambda session: DemoBackend(session, app.spawn, Scripts(turns), rotates=one),
    )
    return app
