"""The defaults of a transport that declares nothing about itself."""

from __future__ import annotations

import pytest

from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports.spec import TransportSpec, transport_limits
from tests.gateway.listener_callbacks import callbacks

ENDPOINT = parse("pod+dir:/pods")


async def test_an_endpoint_that_only_the_app_serves_has_no_listener_of_its_own() -> None:
    spec = TransportSpec()
    assert spec.listen is not None
    with pytest.raises(NotImplementedError, match="the app itself listens"):
        await spec.listen(ENDPOINT, Limits(), callbacks())


def test_by_default_a_transport_checks_nothing_and_occupies_no_address() -> None:
    spec = TransportSpec()
    spec.check(ENDPOINT)
    spec.check_place(ENDPOINT)
    assert (spec.places(ENDPOINT), spec.dial, spec.owner_only) == ((), None, False)


def test_a_transport_has_the_limits_of_the_gateway() -> None:
    limits = transport_limits(Limits(max_message=5, message_parts=7, heartbeat=3.0))
    assert (limits.max_message, limits.max_parts, limits.heartbeat) == (5, 7, 3.0)
