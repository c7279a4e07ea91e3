"""A way that says nothing of itself: what is true of every transport that does not say otherwise."""

from __future__ import annotations

import pytest

from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports.spec import TransportSpec, adapter_limits
from tests.gateway.listener_callbacks import callbacks

ENDPOINT = parse("pod+dir:/pods")


async def test_what_only_the_app_serves_is_not_listened_on_by_itself() -> None:
    spec = TransportSpec()
    assert spec.listen is not None
    with pytest.raises(NotImplementedError, match="the app itself listens"):
        await spec.listen(ENDPOINT, Limits(), callbacks())


def test_nothing_is_wrong_and_no_place_is_taken_where_nothing_is_said() -> None:
    spec = TransportSpec()
    spec.check(ENDPOINT)
    spec.check_place(ENDPOINT)
    assert (spec.place(ENDPOINT), spec.dial, spec.owner_only) == (None, None, False)


def test_a_transport_has_the_limits_of_the_gateway() -> None:
    limits = adapter_limits(Limits(max_message=5, message_parts=7, heartbeat=3.0))
    assert (limits.max_message, limits.max_parts, limits.heartbeat) == (5, 7, 3.0)
