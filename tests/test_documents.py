"""Files, folders, classes, commands and options that the documents name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dragoman.gateway.cli.program import COMMANDS, load_command
from tests.bench.__main__ import has_markers
from tests.test_layout import ROOT, SOURCES, TESTS, listed, name

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FILE = re.compile(r"[\w./*]+\.(py|md|toml)|(gateway|adapters|mappings|tests|docs)/[\w./*]*")
CLASS = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)+")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHER_OPTIONS = {"--install-completion", "--lf", "--check", "--strict", "--now"}
"""The options of typer, pytest, ruff, mypy and systemctl that documents name."""
FOREIGN = {"ApprovalDecisionRequest"}  # types of the dialects that the gateway has no class for


def named(path: Path) -> Iterator[str]:
    """Yield the names that a document has in backticks."""
    yield from re.findall(r"`([^`\n]+)`", path.read_text("utf-8"))


def existing() -> set[str]:
    """Return the files that a document may name, and their folders, relative to the repository."""
    files = {name(path) for path in [*SOURCES, *TESTS, *(ROOT / "docs").rglob("*.md"), *ROOT.glob("tests/data/**/*")]}
    files |= {name(path) for path in (ROOT / "deploy").rglob("*")}
    files |= {path.name for path in ROOT.iterdir()}
    return files | {folder.as_posix() for file in files for folder in Path(file).parents}


def missing_files(tokens: Iterator[str], there: set[str]) -> Iterator[str]:
    for token in tokens:
        if FILE.fullmatch(token):
            end = re.escape(token.rstrip("/")).replace(r"\*", "[^/]*")
            if not any(re.search(f"(^|/){end}$", file) for file in there):
                yield token


def test_each_file_that_a_document_names_exists() -> None:
    there = existing()
    missing = [f"{name(path)}: {token}" for path in DOCUMENTS for token in missing_files(named(path), there)]
    assert not missing, listed(missing)


def test_each_class_that_a_document_names_exists() -> None:
    defined = re.compile(r"^\s*class (\w+)", re.MULTILINE)
    there = FOREIGN.union(*(defined.findall(path.read_text("utf-8")) for path in SOURCES + TESTS))
    missing = [f"{name(p)}: {t}" for p in DOCUMENTS for t in named(p) if CLASS.fullmatch(t) and t not in there]
    assert not missing, listed(missing)


def test_each_command_that_a_document_names_exists() -> None:
    called = [(path, re.match(r"dragoman ([a-z][a-z-]*)", token)) for path in DOCUMENTS for token in named(path)]
    missing = [f"{name(path)}: {found[0]}" for path, found in called if found and found[1] not in COMMANDS]
    assert not missing, listed(missing)


def test_each_option_that_a_document_names_exists() -> None:
    places = [path for path in SOURCES if name(path).startswith(("gateway/cli/", "gateway/launched/"))]
    places += [path for path in TESTS if name(path).startswith("tests/bench/")]
    known = OTHER_OPTIONS | {option for path in places for option in OPTION.findall(path.read_text("utf-8"))}
    known |= {option for command in COMMANDS for given in load_command(command).params for option in given.opts}
    found = [(path, option) for path in DOCUMENTS for option in OPTION.findall(path.read_text("utf-8"))]
    missing = sorted({f"{name(path)}: {option}" for path, option in found if option not in known})
    assert not missing, listed(missing)


def test_the_benchmarks_can_write_their_figures_into_the_file_that_the_document_names() -> None:
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    targets = re.findall(r"make bench ARGS=\"--write ([^\"]+)\"", page)
    assert targets
    assert all(has_markers(ROOT / target) for target in targets)


def test_a_missing_file_is_detected() -> None:
    there = {"gateway/link.py", "gateway"}
    assert list(missing_files(iter(["link.py", "gateway/", "gateway/lobby.py", "bar"]), there)) == ["gateway/lobby.py"]
