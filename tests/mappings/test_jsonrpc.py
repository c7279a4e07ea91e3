"""JSON-RPC on one link: the kinds of message, our own requests, and the peer's requests in their order."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest

from dragoman.mappings.dialect import Step
from dragoman.mappings.jsonrpc import (
    PENDING_MAX,
    WAITING_MAX,
    Calls,
    Envelope,
    PeerCall,
    Replies,
    decode_envelope,
)


def calls() -> Calls[str]:
    numbers = count(1)
    return Calls(lambda: str(next(numbers)))


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}', "request"),
        (b'{"jsonrpc":"2.0","id":null,"method":"a"}', "request"),
        (b'{"jsonrpc":"2.0","method":"a"}', "notification"),
        (b'{"jsonrpc":"2.0","id":"x","result":null}', "response"),
        (b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}', "response"),
        (b'{"jsonrpc":"2.0","id":"x"}', "response"),
    ],
)
def test_the_members_tell_the_kind_of_a_message(frame: bytes, kind: str) -> None:
    assert decode_envelope(frame).kind == kind


@pytest.mark.parametrize("frame", [b'{"id":1,"method":"a","result":1}', b'{"id":1,"params":[]}'])
def test_members_of_two_kinds_make_no_message(frame: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        _ = decode_envelope(frame).kind


def test_an_envelope_is_written_as_it_was_read() -> None:
    frame = b'{"jsonrpc":"2.0","id":"x","method":"a","params":{"b":[1]}}'
    assert msgspec.json.encode(decode_envelope(frame)) == frame


def test_both_sides_of_a_jsonrpc_link_may_send_requests() -> None:
    asked, replies = calls(), Replies[PeerCall]()
    own = asked.new_id()
    asked[own] = "may I?"
    for frame in (b'{"id":1,"method":"do"}', b'{"id":1,"result":"yes"}'):  # the same id, in two directions
        envelope: Envelope = decode_envelope(frame)
        if envelope.kind == "response":
            assert envelope.id == msgspec.Raw(own.encode())
            assert asked.pop(own) == "may I?"
        else:
            replies.add(PeerCall(peer_id="1", reply=(b"done",)))
    assert (dict(asked), replies.flush()) == ({}, [b"done"])


def test_the_table_of_calls_is_full_at_its_limit_and_not_before() -> None:
    asked = calls()
    asked.update((asked.new_id(), "") for _ in range(WAITING_MAX - 1))
    assert not asked.full
    asked[asked.new_id()] = ""
    assert asked.full


def test_drained_calls_come_in_the_order_of_asking_and_are_forgotten() -> None:
    asked = calls()
    asked |= {"b": "first", "a": "second"}
    assert (asked.drain(), dict(asked)) == (["first", "second"], {})


def test_a_reply_waits_for_the_replies_before_it() -> None:
    replies = Replies[PeerCall]()
    first, second = PeerCall(peer_id="a"), PeerCall(peer_id="b", reply=(b"2",))
    replies.add(first)
    replies.add(second)
    assert (replies.flush(), replies.head) == ([], first)
    first.reply = (b"1",)
    assert (replies.flush(), replies.head) == ([b"1", b"2"], None)


def test_closing_refuses_each_request_without_a_reply() -> None:
    replies = Replies[PeerCall]()
    for request in (PeerCall(peer_id="a"), PeerCall(peer_id="b", reply=(b"2",))):
        replies.add(request)
    told = replies.close("the end", lambda request, text: (f"{request.peer_id}: {text}".encode(),))
    assert told == [b"a: the gateway closes: the end", b"2"]


def test_a_request_more_than_may_wait_ends_the_link() -> None:
    replies, step = Replies[PeerCall](), Step[None]()
    for _ in range(PENDING_MAX):
        replies.add(PeerCall(peer_id=""))
    replies.check_flood(step)
    assert step.faults == []
    replies.add(PeerCall(peer_id=""))
    replies.check_flood(step)
    assert [(fault.code, fault.can_continue) for fault in step.faults] == [("flooding", False)]
