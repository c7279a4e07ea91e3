"""Round trips of wire types that are in neither the vectors nor the captures."""

from __future__ import annotations

import pytest
from msgspec import Raw

from dragoman.mappings.canonical import commands
from dragoman.mappings.dialect import Burst
from dragoman.mappings.pod import DIALECT
from tests.mappings.round_trip import back_and_forth

EVENTS = [
    (
        b'{"event":"memory_worker","data":{"worker":"extract","status":"done","run_id":"r","trigger":"idle","reason":"",'
        b'"message":"m","timestamp_ms":-7}}'
    ),
    b'{"event":"thinking_done","data":{"text":""}}',
    b'{"event":"run_end","data":{"result":"rolled_back"}}',
    b'{"event":"error","data":{"code":"not_paused","message":"m"}}',
    b'{"event":"error","data":{"code":"internal","message":"Cancelled"}}',
    b'{"event":"pod_attach_restore","data":{"result":{"action":"restored","pod_name":"k","socket_path":"/s"}}}',
]
METHODS = [
    b'{"method":"pod_event","params":{"kind":"errored","pod_name":"k","message":"m"}}',
    b'{"method":"pod_event","params":{"kind":"shut_down","pod_name":"k"}}',
    (
        b'{"method":"pod_event","params":{"kind":"scope_sub_delegated","parent_pod":"a","sub_pod":"b","sub_socket":"/s",'
        b'"scope":[{"target":"/x","permission":"write","recursive":false}]}}'
    ),
    b'{"method":"attach_or_restore_pod","params":{"name":"k"}}',
]


@pytest.mark.parametrize("frame", EVENTS)
def test_an_event_comes_back_unchanged(frame: bytes) -> None:
    step, frames = back_and_forth(DIALECT.events, frame)
    assert (step.faults, frames) == ([], [frame])


@pytest.mark.parametrize("frame", METHODS)
def test_a_method_comes_back_unchanged(frame: bytes) -> None:
    step, frames = back_and_forth(DIALECT.commands, frame)
    assert (step.faults, frames) == ([], [frame])


def test_an_absent_recursive_is_true() -> None:
    frame = METHODS[2].replace(b',"recursive":false', b"")
    assert back_and_forth(DIALECT.commands, frame)[1] == [METHODS[2].replace(b"false", b"true")]


@pytest.mark.parametrize("frame", METHODS[:3])
def test_a_childs_report_has_a_text_for_backends_without_reports(frame: bytes) -> None:
    (command,) = back_and_forth(DIALECT.commands, frame)[0].bursts[0].items
    assert isinstance(command, commands.InjectNote)
    assert command.text.startswith("Pod ")


def test_the_sample_of_a_loss_is_what_was_lost_first() -> None:
    first, second = (commands.StoreWrite(method=name, params=Raw(b"{}")) for name in "ab")
    (loss,) = DIALECT.commands.write(Burst(items=[first, second])).losses
    assert (loss.count, loss.sample) == (2, first)


def test_the_dialect_is_one_session_without_ids() -> None:
    assert (DIALECT.name, DIALECT.public_ids("x", None)) == ("pod", ())
    assert DIALECT.single_session
    assert not DIALECT.has_request_ids
