"""The readiness of a gateway, and the causes that it tells."""

from __future__ import annotations

from typing import Any

from dragoman.adapters.meter import Meter
from tests.gateway.ops.running import operated


def causes(body: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["cause"] for check in body["checks"] if not check["ready"]}


async def test_a_gateway_without_room_for_clients_is_not_ready() -> None:
    async with operated() as port:
        meter = Meter()
        port.app.memory.watch(meter, lambda: None)
        meter.add(int(port.app.memory.limit * 0.9))
        status, body = await port.ask("/readyz")
        assert (status, body["status"]) == (503, "not ready")
        assert "the gateway is out of memory" in causes(body)["memory"]


async def test_a_gateway_that_stops_is_draining() -> None:
    async with operated() as port:
        port.app.stop.set()
        status, body = await port.ask("/readyz")
        assert (status, body["status"]) == (503, "draining")
        assert "the gateway stops" in causes(body)["gateway"]
