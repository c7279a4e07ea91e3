"""Images of an input, which codewhale carries inline and the canonical form as `data:` URLs.

The source is docs/dialects/codewhale.md, section 12.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.mappings.canonical.values import Failure, ImageAttachment, Segment, attachments
from dragoman.mappings.codewhale.wire.values import InlineImage

SCHEME, BASE64 = "data:", ";base64,"

TOTAL_MAX = 5 * 1024 * 1024 * 4 // 3
"""The longest base64 of all images of an input: servers refuse more than 5 MiB, and end at a line above 8 MiB."""

NOT_INLINE = "a codewhale takes images as `data:` URLs in base64 only, and no files"


def as_attachment(image: InlineImage) -> ImageAttachment:
    return ImageAttachment(url=f"{SCHEME}{image.mime}{BASE64}{image.data_base64}")


def as_image(segment: Segment) -> InlineImage | None:
    """Return an attachment as an image; None if it is a file, or has another URL."""
    if not isinstance(segment, ImageAttachment) or not segment.url.startswith(SCHEME):
        return None
    mime, separator, data = segment.url.removeprefix(SCHEME).rpartition(BASE64)
    return InlineImage(mime=mime, data_base64=data) if separator else None


def refusal(segments: Sequence[Segment], *, takes_images: bool) -> Failure | None:
    """Return the failure of an input whose attachments a server does not accept, or None.

    The server itself checks the data of each image.
    """
    images = [as_image(segment) for segment in attachments(segments)]
    if not all(images):
        return Failure(cause="unsupported", text=NOT_INLINE)
    if images and not takes_images:
        return Failure(cause="unsupported", text="this release of codewhale takes no images")
    if sum(len(image.data_base64) for image in images if image is not None) > TOTAL_MAX:
        return Failure(cause="too_large", text="images exceed the 5 MiB total limit")
    return None
