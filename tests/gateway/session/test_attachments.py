"""Attached files: only a path that resolves inside of a root becomes a reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.session.inputs import PATHS_MAX, as_references
from dragoman.mappings.canonical.values import FileAttachment, FileRef, ImageAttachment, Text
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import CREATE
from tests.gateway.smooth_server_messages import CREATED, acknowledged, create, told


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.txt").write_text("a")
    (tmp_path / "out.txt").write_text("secret")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out.txt")
    (tmp_path / "in" / "loop").symlink_to("loop")
    return tmp_path


def test_a_file_inside_of_a_root_becomes_a_reference(roots: Path) -> None:
    file = roots / "in" / "a b.txt"
    urls = [str(file), file.as_uri(), f"file://localhost{str(file).replace(' ', '%20')}"]
    for url in urls:
        segments = (Text(text="see "), FileAttachment(name="a", url=url), ImageAttachment(url=url))
        reference = FileRef(path=str(file.resolve()))
        assert as_references(segments, [str(roots / "in")]) == (Text(text="see "), reference, reference)


async def test_a_file_stays_an_attachment_between_peers_of_one_dialect(roots: Path) -> None:
    url = (roots / "in" / "a b.txt").as_uri()
    async with in_memory_gateway(upstream="smooth", file_roots=(str(roots),)) as made:
        await (
            made.connects("s")
            .sends("s", CREATE)
            .server_receives({**create("$open"), "supports": None})
            .server_sends(acknowledged("$open", **CREATED))
            .receives("s", acknowledged("open", **CREATED))
            .sends("s", {**told("s1", "see"), "files": [{"name": "a", "url": url}]})
            .server_receives({**told("$t", "see"), "files": [{"name": "a", "url": url}]})
        )


@pytest.mark.parametrize(
    "path",
    ["out.txt", "in/link", "in/../out.txt", "in/none.txt", "in/loop"],
    ids=["beside it", "by a link", "by dots", "not there", "a link to itself"],
)
def test_a_file_outside_of_every_root_stays_an_attachment(roots: Path, path: str) -> None:
    attached = (FileAttachment(name="a", url=f"{roots}/{path}"),)
    assert as_references(attached, [str(roots / "in")]) == attached


@pytest.mark.parametrize(
    "url", ["https://example.org/in/a", "in/a b.txt", "file://elsewhere/in/a", "data:,a", "\0", "//"]
)
def test_an_attachment_that_is_no_local_file_stays_an_attachment(roots: Path, url: str) -> None:
    attached = (ImageAttachment(url=url),)
    assert as_references(attached, [str(roots)]) == attached


def test_without_roots_no_file_is_read(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attached = (FileAttachment(name="a", url=str(roots / "in" / "a b.txt")),)
    monkeypatch.setattr("os.path.realpath", None)
    assert as_references(attached, []) == attached


def test_only_so_many_characters_of_the_paths_of_an_input_are_resolved(roots: Path) -> None:
    """The system is asked for each component of a path. A `data:` URL is no path."""
    image, file = ImageAttachment(url="data:," + "x" * PATHS_MAX), FileAttachment(name="a", url=f"{roots}/in/a b.txt")
    reference = FileRef(path=str((roots / "in" / "a b.txt").resolve()))
    assert as_references((image, file), [str(roots)]) == (image, reference)
    long = FileAttachment(name="a", url=f"{roots}/" + "in/../" * (PATHS_MAX // 6) + "in/a b.txt")
    assert as_references((long, file), [str(roots)]) == (long, file)
