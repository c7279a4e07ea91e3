"""One direction of a small test dialect: frames in, bursts, faults and losses out."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec import Raw, Struct, json

from dragoman.gateway import registry
from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.canonical.events import TextDelta, TextDone
from dragoman.mappings.codec import Codec
from dragoman.mappings.dialect import (
    KEYS_OF_FRAME,
    Burst,
    Direction,
    Instance,
    Oversize,
    Parts,
    Rendered,
    Step,
    Translator,
)
from dragoman.mappings.rules import Rules, RuleTable


class Say(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="say"):
    text: str
    id: str = ""


class Show(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="show"):
    anything: Raw
    text: str = ""
    id: str = ""


TO = Rules[[], TextDelta | TextDone]("small -> canonical")


@TO.rule(Say, produces=(TextDelta, TextDone))
def say(message: Say) -> tuple[TextDelta, TextDone]:
    return TextDelta(text=message.text), TextDone(text=message.text)


@TO.rule(Show)
def show(_message: Show) -> tuple[()]:
    return ()


def direction(*, addressed: bool = False) -> Direction[Any]:
    return Direction(
        codec=Codec("small", Say | Show, max_depth=4),
        to_canonical=TO,
        from_canonical=RuleTable("canonical -> small"),
        envelope=(lambda message: ((message.id, "", None), len(message.text))) if addressed else None,
        write=lambda burst: Rendered(frames=[], losses=[]),
    )


PLAIN, ADDRESSED = direction(), direction(addressed=True)


def received(*frames: Any, by: Direction[Any] = PLAIN) -> Step[Any]:
    step: Step[Any] = Step()
    by.receive(frames, step)
    return step


def said(text: str, **more: object) -> bytes:
    return json.encode({"type": "say", "text": text, **more})


def both(text: str) -> list[Any]:
    return [TextDelta(text=text), TextDone(text=text)]


def test_frames_of_one_read_are_one_burst_in_order() -> None:
    assert received(said("a"), said("b")) == Step(bursts=[Burst(items=both("a") + both("b"))])


def test_no_frames_make_no_burst() -> None:
    assert received() == received(b'{"type":"show","anything":1}') == Step()


def test_an_invalid_frame_between_valid_ones_loses_only_that_frame() -> None:
    step = received(said("a"), b"nonsense", said("b"))
    assert step.bursts == [Burst(items=both("a") + both("b"))]
    assert [fault.code for fault in step.faults] == ["not_json"]


def test_an_unknown_message_keeps_its_place() -> None:
    dance = b'{"type":"dance"}'
    (burst,) = received(said("a"), dance, said("b")).bursts
    unmapped = Unmapped(dialect="small", tag="dance", raw=dance.decode())
    assert burst.items == [*both("a"), unmapped, *both("b")]


def test_an_undocumented_key_is_a_loss_by_its_path() -> None:
    step = received(said("a", lang="en"))
    assert (step.bursts, step.faults) == ([Burst(items=both("a"))], [])
    assert [(loss.kind, loss.field, loss.why) for loss in step.losses] == [("Say", "$.lang", "undocumented key")]


def test_the_path_of_an_undocumented_key_is_bounded() -> None:
    (loss,) = received(said("a", **{"x" * 100_000: 1})).losses
    assert len(loss.field) <= 200


def test_a_frame_with_many_undocumented_keys_is_a_bounded_number_of_losses() -> None:
    step = received(said("a", **{f"x{n}": n for n in range(10_000)}))
    assert len(step.losses) <= 65
    assert sum(loss.count for loss in step.losses) == 10_000


def test_a_frame_of_too_many_parts_is_refused_with_their_number() -> None:
    (fault,) = received(Oversize(size=65, limit=64, name="message_parts")).faults
    assert (fault.code, fault.text) == ("too_large", "message of 65 parts is over the limit of 64 (`message_parts`)")


@pytest.mark.parametrize(
    ("frame", "code"),
    [(Oversize(size=9, limit=8), "too_large"), (Parts(channel="rpc", identity=b"i", parts=(b"{}",)), "invalid")],
)
def test_a_frame_that_is_not_bytes_is_a_fault(frame: Any, code: str) -> None:
    step = received(said("a"), frame, said("b"))
    assert [(fault.code, fault.can_continue) for fault in step.faults] == [(code, True)]
    assert step.bursts == [Burst(items=both("a") + both("b"))]


def test_a_frame_without_an_end_ends_its_link() -> None:
    (fault,) = received(Oversize(size=161, limit=10, endless=True)).faults
    assert (fault.code, fault.can_continue) == ("too_large", False)


def test_a_frame_that_decodes_may_still_be_too_deep() -> None:
    deep = b'{"type":"show","anything":' + b"[" * 9 + b"]" * 9 + b"}"
    assert [fault.code for fault in received(deep).faults] == ["too_deep"]


@pytest.mark.parametrize("addressed", [False, True])
def test_a_frame_with_opaque_json_is_decoded_once(*, addressed: bool) -> None:
    by, decoded = direction(addressed=addressed), 0
    decode = by.codec.decode

    def count(frame: bytes) -> Any:
        nonlocal decoded
        decoded += 1
        return decode(frame)

    by.codec.decode = count  # type: ignore[misc]  # the test counts its calls
    assert received(b'{"type":"show","anything":[1,2,3]}', by=by) == Step()
    assert decoded == 1


def test_items_of_one_request_are_one_burst_at_its_first_time() -> None:
    step = received(said("a", id="r"), said("bb", id="r"), said("c", id="s"), by=ADDRESSED)
    assert step.bursts == [
        Burst(items=both("a") + both("bb"), request="r", at=1),
        Burst(items=both("c"), request="s", at=1),
    ]


def test_alternating_requests_stay_in_order() -> None:
    step = received(said("a", id="r"), said("b", id="s"), said("c", id="r"), by=ADDRESSED)
    assert [(burst.request, burst.items[0].text) for burst in step.bursts] == [("r", "a"), ("s", "b"), ("r", "c")]


@pytest.mark.parametrize("by", [PLAIN, ADDRESSED])
def test_the_frames_that_the_fast_decoder_refuses_are_counted(by: Direction[Any]) -> None:
    bad = (b"x", b'{"type":"say","text":"a","zz":1}', b'{"type":"new"}', b'{"type":"say","text":7}')
    assert received(*[said("a")] * 3, by=by).mended == 0
    assert received(said("a"), *bad, said("a"), by=by).mended == len(bad)


def test_a_frame_with_many_undocumented_keys_counts_as_several_refused_frames() -> None:
    more = {f"k{number}": 0 for number in range(10 * KEYS_OF_FRAME)}
    assert received(said("a", **more)).mended == 11


@pytest.mark.parametrize("name", registry.OURS)
def test_the_translators_of_both_sides_tell_how_many_frames_the_fast_decoder_refused(name: str) -> None:
    dialect = registry.dialect(name)
    served = dialect.served(Instance(id="i", started_at=0)) if dialect.served is not None else dialect
    new_id = map(str, count()).__next__
    bad: Any = Parts("rpc", b"", (b"", b"{")) if name == "pando" else b"{"
    published: Any = Parts("pub", b"", (b"llm.token\0{",)) if name == "pando" else b"{"
    assert served.server(lambda: 0, new_id).receive([bad] * 3).mended == 3
    assert dialect.client(lambda: 0, new_id, lambda: 0).receive([published] * 3).mended == 3


@pytest.mark.parametrize("name", registry.OURS)
def test_translators_begin_with_the_methods_of_the_interface_in_its_order(name: str) -> None:
    dialect, interface = registry.dialect(name), [method for method in vars(Translator) if not method.startswith("_")]
    for translator in (dialect.server, dialect.client, dialect.publication or dialect.client):
        own = [method for method in vars(translator) if not method.startswith("__")]
        inherited = sorted(set(interface).intersection(own), key=interface.index)
        assert own[: len(inherited)] == inherited, translator
