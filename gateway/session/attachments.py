"""Files that clients attach by URL, toward backends that read files themselves (docs/translation.md, rule 3.10).

No request can name a file outside of the route's `file_roots` (docs/design.md, section 6): a path counts as it
resolves, with all links followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dragoman.mappings.canonical.values import FileAttachment, FileRef, ImageAttachment, Segment

__all__ = ["as_references"]


def as_references(segments: Sequence[Segment], roots: Sequence[str]) -> tuple[Segment, ...]:
    """The segments, with each attachment inside `roots` as a reference to its file; the others as they are."""
    resolved = [Path(root).resolve() for root in roots]
    return tuple(_reference(segment, resolved) for segment in segments)


def _reference(segment: Segment, roots: Sequence[Path]) -> Segment:
    if not isinstance(segment, ImageAttachment | FileAttachment):
        return segment
    path = _path(segment.url)
    if path is None or not any(path.is_relative_to(root) for root in roots):
        return segment
    return FileRef(path=str(path))


def _path(url: str) -> Path | None:
    """The existing file that a `file://` URL or an absolute path names."""
    try:
        parts = urlsplit(url)
        named = unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else url
        path = Path(named)
        return path.resolve(strict=True) if path.is_absolute() else None
    except (OSError, ValueError):
        return None
