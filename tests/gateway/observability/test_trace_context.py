"""W3C trace contexts: which are taken, and how they are passed on."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw

from dragoman.gateway.observability.trace_context import add_trace, read_trace, trace_id, trace_of_metadata

# The example of the specification, section 3.2.5.
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_example_of_the_specification_is_read() -> None:
    trace = read_trace({"traceparent": PARENT, "tracestate": "congo=t61rcWkgMzE"})
    assert trace == {"traceparent": PARENT, "tracestate": "congo=t61rcWkgMzE"}
    assert trace_id(trace) == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        f"ff{PARENT[2:]}",
        f"{PARENT}-more",
        f"{PARENT}\n",
        f"01{PARENT[2:]}-{'x' * 200}",
        7,
        f"01{PARENT[2:]}-\rX: y",
    ],
)
def test_a_malformed_context_is_ignored(parent: object) -> None:
    assert read_trace({"traceparent": parent}) is None


def test_a_later_version_may_be_longer() -> None:
    assert read_trace({"traceparent": f"01{PARENT[2:]}-more"}) is not None


@pytest.mark.parametrize("state", ["", "a=b\r\nX: y", "x" * 513, "é=1"])
def test_an_invalid_tracestate_is_dropped_and_the_traceparent_kept(state: str) -> None:
    assert read_trace({"traceparent": PARENT, "tracestate": state}) == {"traceparent": PARENT}


@pytest.mark.parametrize("metadata", [b"[]", b"7", b'"x"', b"{", b'{"traceparent":null}', b"[" * 5000])
def test_metadata_without_a_context_has_none(metadata: bytes) -> None:
    assert trace_of_metadata(Raw(metadata)) is None


def test_a_context_is_added_to_metadata_that_has_none() -> None:
    trace = {"traceparent": PARENT}
    added = add_trace(Raw(b'{"a":1}'), trace)
    assert isinstance(added, Raw)
    assert msgspec.json.decode(added) == {"a": 1, **trace}
    assert trace_of_metadata(add_trace(UNSET, trace)) == trace


@pytest.mark.parametrize("metadata", [b"[]", b'{"traceparent":"mine"}'])
def test_metadata_that_cannot_take_a_context_stays_as_it_is(metadata: bytes) -> None:
    assert add_trace(Raw(metadata), {"traceparent": PARENT}) == Raw(metadata)
