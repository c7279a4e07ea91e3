"""The documents name only what exists, and everything that users write and read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.cli.program import COMMANDS, load_command
from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Header, Part, StepLine
from dragoman.gateway.transports.spec import TransportSpec
from dragoman.mappings.canonical import Command, Event
from tests.bench.__main__ import has_markers
from tests.mappings.golden import documented
from tests.test_layout import ROOT, SOURCES, TESTS, listed, name

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FILE = re.compile(r"[\w./*]+\.(py|md|toml)|(gateway|adapters|mappings|tests|docs)/[\w./*]*")
MODULE = re.compile(r"(?<![\w/.-])(?:gateway|adapters|mappings|tests)/[\w/]+\.py\b")
CLASS = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)+")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHER_OPTIONS = {"--install-completion", "--lf", "--check", "--strict", "--now"}
"""The options of typer, pytest, ruff, mypy and systemctl that documents name."""
GLOSSARY_MAX = 25  # words: a reader learns all of them before the first module
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


def test_each_module_whose_path_a_document_or_a_source_names_exists() -> None:
    naming = [path for path in [*DOCUMENTS, *SOURCES, *TESTS] if path.resolve() != Path(__file__).resolve()]
    found = [(path, module) for path in naming for module in MODULE.findall(path.read_text("utf-8"))]
    missing = [f"{name(path)}: {module}" for path, module in found if not (ROOT / module).is_file()]
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


# -- what the documents must name -------------------------------------------------------------------


def section(page: str, number: int) -> str:
    """Return a section of a page, whose path is given from the root."""
    return (ROOT / page).read_text("utf-8").partition(f"\n## {number}.")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("union", "number"), [(Command, 1), (Event, 2)])
def test_each_canonical_type_has_one_row_in_the_tables_of_translation(union: object, number: int) -> None:
    cells = re.findall(r"^\| ([A-Z][^|(]*)", section("docs/translation.md", number), re.MULTILINE)
    rows = [kind for cell in cells for kind in cell.strip().split(", ")]
    kinds = {kind.__name__ for kind in get_args(union)} - ({"Unmapped"} if number == 1 else set())
    missing = sorted(kinds.difference(rows))
    assert not missing, f"write a row for these in docs/translation.md, section {number}:" + listed(missing)
    assert sorted(rows) == sorted(kinds)


@pytest.mark.parametrize("dialect", registry.OURS)
def test_the_page_of_a_dialect_names_each_message_and_each_field_of_it(dialect: str) -> None:
    known = registry.dialect(dialect)
    names = set[object](key.rpartition(".")[2] for key in documented(known.events) | documented(known.commands))
    for table in (known.events.to_canonical, known.commands.to_canonical):
        names |= {kind.__struct_config__.tag for kind in table.entries if issubclass(kind, Struct)} - {None}
    page = (ROOT / f"docs/dialects/{dialect}.md").read_text("utf-8")
    missing = sorted(name for name in map(str, names) if not re.search(rf"\b{re.escape(name)}\b", page))
    assert not missing, f"docs/dialects/{dialect}.md does not name these messages and fields:" + listed(missing)


@pytest.mark.parametrize("written", [Header, StepLine, FrameLine, EventLine, CommandLine, Part])
def test_the_format_of_recordings_names_each_key(written: type[Struct]) -> None:
    page = (ROOT / "docs/recording.md").read_text("utf-8")
    missing = [key for key in written.__struct_encode_fields__ if not re.search(rf"[`\"]{key}[`\"]", page)]
    assert not missing, f"docs/recording.md does not name these keys of {written.__name__}:" + listed(missing)


def test_the_table_of_commands_names_each_command() -> None:
    table = section("docs/design.md", 7)
    missing = [name for name in COMMANDS if f"`dragoman {name}" not in table and f"`{name}`" not in table]
    assert not missing, "write a row for these commands in docs/design.md, section 7:" + listed(missing)


def test_the_table_of_endpoints_has_each_form() -> None:
    table = section("docs/design.md", 7)
    forms = [f"{name}+{transport}:" for name, paths in registry.TRANSPORTS.items() for transport in paths]
    missing = [form for form in forms if form not in table]
    assert not missing, "write a row for these endpoints in docs/design.md, section 7:" + listed(missing)


def test_the_tables_of_endpoints_name_each_option() -> None:
    specs = set[TransportSpec]()
    for path in (path for transports in registry.TRANSPORTS.values() for path in transports.values()):
        module, _, member = path.partition(".")
        specs.add(getattr(import_module(f"dragoman.gateway.transports.{module}"), member))
    options = {option for spec in specs for option in spec.listen_options | spec.dial_options}
    table = section("docs/design.md", 7)
    missing = sorted(option for option in options if f"{option}=" not in table)
    assert not missing, "write these options into the table of endpoints (docs/design.md, section 7):" + listed(missing)


def test_the_benchmarks_can_write_their_figures_into_the_file_that_the_document_names() -> None:
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    targets = re.findall(r"make bench ARGS=\"--write ([^\"]+)\"", page)
    assert targets
    assert all(has_markers(ROOT / target) for target in targets)


def test_the_glossary_is_short_and_has_each_word_once() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    words = re.findall(r"^\| ([^|]+) \|", page.partition("## Glossary")[2].partition("\n## ")[0], re.MULTILINE)[1:]
    assert 0 < len(words) <= GLOSSARY_MAX
    assert len({*words}) == len(words)


def test_a_missing_file_is_detected() -> None:
    there = {"gateway/link.py", "gateway"}
    assert list(missing_files(iter(["link.py", "gateway/", "gateway/lobby.py", "bar"]), there)) == ["gateway/lobby.py"]
