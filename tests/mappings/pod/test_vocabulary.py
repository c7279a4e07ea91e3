"""Round trips of the segments of an input."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from dragoman.mappings.canonical import values
from dragoman.mappings.pod.vocabulary import from_segments, to_segments
from dragoman.mappings.pod.wire import values as wire
from tests.samples import full

PAIRS: list[tuple[wire.Segment, values.Segment]] = [
    (wire.Text(content="x"), values.Text(text="x")),
    (wire.Paste(id=3, chars=2, lines=1, content="ab"), values.Paste(id=3, chars=2, lines=1, text="ab")),
    (wire.FileRef(path="a/b"), values.FileRef(path="a/b")),
    (wire.KnowledgeRef(slug="k"), values.KnowledgeRef(slug="k")),
    (wire.WorkflowInvoke(slug="w"), values.WorkflowInvoke(slug="w")),
    (wire.Unknown(), values.UnknownSegment()),
]


@pytest.mark.parametrize(("said", "meant"), PAIRS, ids=[type(said).__name__ for said, _ in PAIRS])
def test_a_segment_comes_back_equal(said: wire.Segment, meant: values.Segment) -> None:
    assert to_segments([said]) == (meant,)
    assert from_segments([meant]) == [said]


def test_every_wire_segment_has_a_case() -> None:
    assert {type(said) for said, _ in PAIRS} == set(get_args(wire.Segment))


def test_images_and_files_are_left_out_and_named() -> None:
    every: list[Any] = [full(kind) for kind in get_args(values.Segment)]
    left = values.attachments(every)
    assert {type(segment) for segment in left} == {values.ImageAttachment, values.FileAttachment}
    assert len(from_segments(every)) == len(every) - len(left)
