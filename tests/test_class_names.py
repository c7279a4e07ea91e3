"""Each class name has one owner, so that a search for a name finds one class."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.source_facts import facts_of
from tests.test_layout import SOURCES, listed, name


def owners_of_classes(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Map each class name to the modules that define it; a file that several dialects have counts as one module.

    The structs of a wire have the wire's names, and are left out.
    """
    owners: dict[str, set[str]] = {}
    for path in paths:
        if "wire" in path.with_suffix("").parts:
            continue
        place = re.sub(r"^mappings/(codewhale|pando|pod|smooth)/", "mappings/DIALECT/", name(path))
        for one in facts_of(path).classes:
            owners.setdefault(one.name, set()).add(place)
    return owners


def test_each_class_name_is_used_once() -> None:
    shared = [
        f"{title}: {', '.join(sorted(places))}"
        for title, places in sorted(owners_of_classes(SOURCES).items())
        if len(places) > 1
    ]
    assert not shared, listed(shared)


def test_a_class_name_that_is_used_twice_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "one.py", tmp_path / "two.py", tmp_path / "wire.py"]
    for path in paths:
        path.write_text("class Entry: ...\n")
    monkeypatch.setattr("tests.test_class_names.name", lambda path: path.name)
    assert owners_of_classes(paths) == {"Entry": {"one.py", "two.py"}}
