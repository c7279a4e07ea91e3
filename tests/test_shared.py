"""The search for the shared test material."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import find


@pytest.fixture
def material(tmp_path: Path) -> Path:
    folder = tmp_path / "material"
    (folder / "smooth-operator").mkdir(parents=True)
    return folder


def test_the_folder_of_the_variable_takes_precedence_over_the_one_beside_the_repository(
    material: Path, tmp_path: Path
) -> None:
    assert find(str(material), tmp_path) == material


def test_without_the_variable_the_folder_beside_the_repository_is_used(material: Path) -> None:
    assert find(None, material) == material


def test_without_either_folder_there_is_none(tmp_path: Path) -> None:
    assert find(None, tmp_path) is None


def test_an_empty_variable_disables_the_shared_folder(material: Path) -> None:
    assert find("", material) is None


def test_a_missing_folder_of_the_variable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="DRAGOMAN_SHARED="):
        find(str(tmp_path / "nowhere"), tmp_path)
