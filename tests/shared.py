"""Test material that is not part of this repository: schemas, fixtures, scenarios and captures of smooth-operator.

It is looked for in the folder that DRAGOMAN_SHARED names, else in `shared` beside the repository. Without it the tests
that need it are skipped, and the summary of the run says how many. `DRAGOMAN_SHARED=` (empty) does without on purpose.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NOT_FOUND = "no shared test material: neither DRAGOMAN_SHARED nor ../shared"
FOLDER = "smooth-operator"
BESIDE = Path(__file__).resolve().parents[2] / "shared"


def find(named: str | None, beside: Path) -> Path | None:
    """Return the folder of the shared material. A folder named in the environment must exist, so that a typing error
    does not skip tests.
    """
    if named is None:
        return beside if (beside / FOLDER).is_dir() else None
    if not named:
        return None
    folder = Path(named).resolve()
    if not (folder / FOLDER).is_dir():
        raise pytest.UsageError(f"DRAGOMAN_SHARED={named}: there is no folder `{FOLDER}` in it")
    return folder


SHARED = find(os.environ.get("DRAGOMAN_SHARED"), BESIDE)

needs_shared = pytest.mark.skipif(SHARED is None, reason=NOT_FOUND)
"""Marks a test, or by `pytestmark` a module, that cannot run without the shared material."""
