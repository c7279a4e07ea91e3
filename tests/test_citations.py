"""Every citation in the repository leads to a heading or a numbered rule of a document in docs/.

A citation is written `docs/design.md, section 5`, `docs/translation.md, rules 3.6 and 3.7`, `docs/dialects/pod.md,
sections 6 to 8`, `docs/performance.md, "In short"`, or as the document alone. In a document of docs/ that numbers its
headings, `section 5` and `rule 3.6` mean its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dragoman.gateway import registry

ROOT = Path(__file__).resolve().parent.parent
THIS = Path(__file__).resolve()
CITING = ("mappings", "adapters", "gateway", "tests", "docs", "deploy")
KINDS = ("*.py", "*.md", "*.toml", "*.html", "*.service", "*.socket", "*.yaml", "Containerfile")

GAP = r"\s+(?:#\s*)?"  # a citation may be wrapped, also in a comment
NUMBER = r"\d+[a-z]?(?:\.\d+)*"
SEVERAL = rf"{NUMBER}(?:(?:,|{GAP}and|{GAP}to){GAP}{NUMBER})*"
PLACE = rf"(?:(?:section|rule){GAP}(?P<one>{NUMBER})|(?:sections|rules){GAP}(?P<many>{SEVERAL}))"
CITATION = re.compile(rf"(?P<path>docs/[a-z/]+\.md)(?:,{GAP}{PLACE})?")
TITLED = re.compile(rf"(?P<path>docs/[a-z/]+\.md),{GAP}\"(?P<title>[^\"]+)\"")
OWN = re.compile(PLACE)
LINK = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#\s]+)")
UNRESOLVED = re.compile(
    rf"(?<![/\w\[(])(?:design|translation|performance|house|style|peers|neighbours)\.md\b"
    rf"|\((?:design|translation|performance|house|style|peers|neighbours)\.md{GAP}"
    rf"|docs/[a-z/]+\.md`?,?{GAP}\d|docs/[a-z/]+\.md`?{GAP}(?:section|rule)"
    rf"|\b(?:smooth|pod|pando|codewhale)(?:'s)?{GAP}sheets?\b|\b[Tt]he{GAP}sheets?\b|protocols/\w+\.md",
    re.IGNORECASE,
)
"""Names of documents that are not in this repository, documents without their folder, and other forms of citations."""

NAMED_TEST = re.compile(r"(?P<path>tests/[a-z_/]+\.py), `(?P<test>test_\w+)`")
HEADING = re.compile(rf"#+ (?P<number>{NUMBER})\.? ")
ITEM = re.compile(r"(?P<number>\d+)\. ")


@cache
def places(path: str) -> frozenset[str] | None:
    """Return the numbers of a document's headings and of the items of their numbered lists; None without a document."""
    file = ROOT / path
    if not file.is_file():
        return None
    found: set[str] = set()
    section = ""
    for line in file.read_text("utf-8").split("\n"):
        if heading := HEADING.match(line):
            section = heading["number"]
            found.add(section)
        elif item := ITEM.match(line):
            found.add(f"{section}.{item['number']}")
    return frozenset(found)


@cache
def titles(path: str) -> frozenset[str]:
    """Return the headings of a document without their numbers; none without a document."""
    file = ROOT / path
    lines = file.read_text("utf-8").split("\n") if file.is_file() else []
    return frozenset(re.sub(rf"#+ (?:{NUMBER}\.? )?", "", line) for line in lines if line.startswith("#"))


def numbers(match: re.Match[str]) -> list[str]:
    return re.findall(NUMBER, match["one"] or match["many"] or "")


def dangling(text: str, own: str = "") -> Iterator[str]:
    """Yield each citation of `text` that leads nowhere. `own` is the path of the document that the text is, if any."""
    for match in CITATION.finditer(text):
        known = places(match["path"])
        if known is None:
            yield f"there is no {match['path']}"
            continue
        yield from (f"{match['path']} has no section or rule {n}" for n in numbers(match) if n not in known)
    for match in TITLED.finditer(text):
        title = " ".join(match["title"].replace("#", "").split())
        if title not in titles(match["path"]):
            yield f"{match['path']} has no heading {title!r}"
    if own and places(own):
        rest = CITATION.sub("", text)
        for match in OWN.finditer(rest):
            yield from (f"{own} has no section or rule {n}" for n in numbers(match) if n not in (places(own) or ()))
    for match in UNRESOLVED.finditer(text):
        yield f"{match[0]!r} is no citation of a document in docs/"


def citing() -> list[Path]:
    files = [path for top in CITING for kind in KINDS for path in (ROOT / top).rglob(kind)]
    top = [path for kind in ("*.md", "*.toml", "dragoman/*.py", "Makefile") for path in ROOT.glob(kind)]
    return sorted([*files, *top])


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_citation_leads_to_a_heading_or_a_rule() -> None:
    found = [
        f"    {name(path)}: {problem}"
        for path in citing()
        if path != THIS
        for problem in dangling(path.read_text("utf-8"), name(path) if name(path).startswith("docs/") else "")
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_link_of_a_page_leads_to_a_file() -> None:
    found = [
        f"    {name(path)}: {link['target']}"
        for path in citing()
        if path.suffix == ".md"
        for link in LINK.finditer(path.read_text("utf-8"))
        if not (path.parent / link["target"]).exists()
    ]
    assert not found, "\n" + "\n".join(found)


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return the file and the function of each test that a page names."""
    return [(match["path"], match["test"]) for match in NAMED_TEST.finditer(text)]


def test_every_test_that_a_page_names_exists() -> None:
    found = [
        f"    {name(page)}: {path}, {test}"
        for page in (ROOT / "docs").rglob("*.md")
        for path, test in named_tests(page.read_text("utf-8"))
        if not (ROOT / path).is_file() or f"def {test}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_default_and_every_right_in_the_page_about_security_names_its_test() -> None:
    page = (ROOT / "docs/security.md").read_text("utf-8")
    rows = [line for line in page.partition("## 2.")[2].split("\n") if line.startswith("| ")]
    rows = [row for row in rows if not row.endswith("| test |")]
    assert len(rows) > 30
    assert [row for row in rows if not named_tests(row)] == []


def test_the_source_cites_every_document_about_it() -> None:
    """The other tests cannot pass by finding no citations after their form has changed."""
    cited = {match["path"] for path in citing() for match in CITATION.finditer(path.read_text("utf-8"))}
    dialects = {f"docs/dialects/{dialect}.md" for dialect in registry.OURS}
    assert cited >= {"docs/design.md", "docs/translation.md", "docs/performance.md", "docs/measurements.md", *dialects}


@pytest.mark.parametrize(
    "text",
    [
        "docs/design.md",
        "docs/design.md, section 5: pando",
        "docs/translation.md, rule 3.18 and nothing else",
        "docs/translation.md, rules 3.6, 3.7 and 4.1",
        "docs/dialects/pod.md, sections 1, 3 to 5 and 8",
        "docs/dialects/smooth.md, section 11.2",
        "docs/measurements.md, section 2b",
        'docs/performance.md, "The work of one\nstep"',
        'docs/measurements.md, "Codec"',
        "a = 1  # (docs/dialects/pando.md, section\n# 1.1)",
    ],
)
def test_every_heading_and_rule_can_be_cited(text: str) -> None:
    assert list(dangling(text)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("docs/plan.md, section 1", "there is no docs/plan.md"),
        ("docs/design.md, section 99", "docs/design.md has no section or rule 99"),
        ("docs/translation.md, rule 3.99", "docs/translation.md has no section or rule 3.99"),
        ("docs/translation.md, rules 3.1 and 3.99", "docs/translation.md has no section or rule 3.99"),
        ("docs/dialects/pod.md, sections 6 to\n    99", "docs/dialects/pod.md has no section or rule 99"),
        ("docs/dialects/smooth.md, section 11.99", "docs/dialects/smooth.md has no section or rule 11.99"),
        ('docs/performance.md, "A prototype"', "docs/performance.md has no heading 'A prototype'"),
        ("see design.md, section 5", "'design.md' is no citation of a document in docs/"),
        ("(translation.md 3.4)", "'(translation.md ' is no citation of a document in docs/"),
        ("docs/translation.md, 3.4", "'docs/translation.md, 3' is no citation of a document in docs/"),
        ("the pod sheet's section 8", "'pod sheet' is no citation of a document in docs/"),
    ],
)
def test_a_citation_that_leads_nowhere_is_detected(text: str, problem: str) -> None:
    assert list(dangling(text)) == [problem]


def test_a_document_that_cites_a_section_of_its_own_must_have_it() -> None:
    assert list(dangling("see section 5 and rule 3.6", "docs/translation.md")) == [
        "docs/translation.md has no section or rule 5"
    ]
