"""Images of an input: inline in codewhale, `data:` URLs in canonical form (docs/dialects/codewhale.md, section 12)."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Segment, Text
from dragoman.mappings.codewhale.images import TOTAL_MAX, as_attachment, as_image, refusal
from dragoman.mappings.codewhale.wire.values import InlineImage

PNG = InlineImage(mime="image/png", data_base64="AQ==")
URL = "data:image/png;base64,AQ=="


def test_an_image_comes_back_equal() -> None:
    assert as_attachment(PNG) == ImageAttachment(url=URL)
    assert as_image(as_attachment(PNG)) == PNG


@pytest.mark.parametrize(
    "segment",
    [
        ImageAttachment(url="https://host/a.png"),
        ImageAttachment(url="data:image/svg+xml,<svg/>"),
        ImageAttachment(url="/w/a.png"),
        FileAttachment(name="a.png", url=URL),
    ],
)
def test_a_file_or_an_image_that_is_not_inline_is_refused(segment: Segment) -> None:
    assert as_image(segment) is None
    refused = refusal((Text(text="look"), segment), takes_images=True)
    assert refused is not None
    assert refused.cause == "unsupported"


def test_images_are_refused_if_the_server_takes_none() -> None:
    assert refusal((ImageAttachment(url=URL),), takes_images=True) is None
    refused = refusal((ImageAttachment(url=URL),), takes_images=False)
    assert refused is not None
    assert refused.cause == "unsupported"
    assert refusal((Text(text="look"),), takes_images=False) is None


def test_images_that_would_end_the_server_are_refused() -> None:
    whole = as_attachment(InlineImage(mime="image/png", data_base64="A" * (TOTAL_MAX // 2)))
    assert refusal((whole, whole), takes_images=True) is None
    refused = refusal((whole, whole, as_attachment(PNG)), takes_images=True)
    assert refused is not None
    assert (refused.cause, refused.text) == ("too_large", "images exceed the 5 MiB total limit")
