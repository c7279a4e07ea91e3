"""A configuration file of an earlier release is accepted, or its changed keys are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.config.check import check
from tests.data_files import DATA
from tests.test_layout import listed

FILES = sorted((DATA / "config").glob("*.toml"))
EXPLAINED = ("was renamed to ", "was removed in version ")  # and the version, and what to write instead


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_key_of_an_earlier_release_is_accepted_or_its_error_explains_the_change(path: Path) -> None:
    """Each release adds a file with all its keys; a renamed or removed key gets its own error text."""
    unexplained = [str(error) for error in check(path).errors if not any(words in error.text for words in EXPLAINED)]
    assert not unexplained, listed(unexplained)


def test_the_file_of_each_release_is_kept() -> None:
    assert [path.stem for path in FILES] == ["0.1.0"]
