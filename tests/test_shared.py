"""Where shared test material is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import find


@pytest.fixture
def material(tmp_path: Path) -> Path:
    folder = tmp_path / "material"
    (folder / "smooth-operator").mkdir(parents=True)
    return folder


def test_a_named_folder_wins_over_the_one_beside_the_repository(material: Path, tmp_path: Path) -> None:
    assert find(str(material), tmp_path) == material


def test_unnamed_it_is_the_folder_beside_the_repository(material: Path) -> None:
    assert find(None, material) == material


def test_without_either_there_is_none(tmp_path: Path) -> None:
    assert find(None, tmp_path) is None


def test_an_empty_name_does_without_on_purpose(material: Path) -> None:
    assert find("", material) is None


def test_a_named_folder_that_is_not_there_is_an_error_and_no_skip(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="DRAGOMAN_SHARED="):
        find(str(tmp_path / "nowhere"), tmp_path)
