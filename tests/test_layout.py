"""The code rules that a machine can check; each failing test lists the places that break its rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
import tomli

from dragoman.gateway import registry
from tests.source_facts import ClassFacts, SourceFacts, calls_of_create_task, facts_of, read_facts

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dragoman"  # links to the folders at the top; in an sdist it holds them
TOPS = ("mappings", "adapters", "gateway")
SOURCES = [path for top in TOPS for path in sorted((PACKAGE / top).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAX_LINES = 600  # past it a module does two jobs
MAX_CLASS_LINES = 250  # past it a class does two jobs
MAX_PARAMETERS = 7  # past it some of them belong together; the options of a command are exempt

NO_NOUNS = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}  # names that say nothing

# Classes that are no structs, and that others fill in all the same -> why.
FILLED_IN = {
    "Context": "data that a rule needs beside its item",
    "StepBudget": "data that each token changes: a struct would be slower",
}
# Attributes that another module assigns -> why.
ASSIGNED_ANYWHERE = {"Turns.usual": "a method would be a further call for each frame of a client"}

MAX_WORDS = 25  # of a sentence in a docstring
NAME_RIDDLE = re.compile(
    r"test_(it|its|they|those|that|of|what|who|whose|whoever|which|whatever|somebody|one_(that|who))_"
)
RIDDLE = re.compile(
    r"(It|They|Those|These|That|The same|Of|What|Whose|Which|Who|Whoever|Nobody|Somebody|"
    r"Where|Whether|How|When|While|Why|So|If)\b"
)

# Names in the folder of each dialect -> the modules that each dialect has in a package of that name.
SKELETON: dict[str, set[str]] = {
    "wire": {"codecs"},
    "to_canonical": {"commands", "events"},
    "from_canonical": {"context", "commands", "events"},
    "translator": {"client", "server"},
    "directions": set(),
    "projection": set(),
    "vocabulary": set(),
}
# Dialect -> the further modules that stand beside those: both directions use them.
OWN_MODULES = {"codewhale": {"ids", "images"}, "pod": {"entries"}}

SUPPRESSION = re.compile(
    r"#\s*(type:\s*ignore|noqa|pragma:\s*no cover)(\[[^\]]*\]|:\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*)?(?P<rest>.*)"
)


def name(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()


def listed(problems: Iterable[str]) -> str:
    return "\n" + "\n".join(f"    {problem}" for problem in problems)


def runs(path: Path) -> bool:
    """Return True if a module has a function with a body; declarations are tested through the modules that use them."""
    return any(function.runs for function in facts_of(path).functions)


def is_dialect(folder: Path) -> bool:
    return (folder / "projection.py").exists()


def mirrors(path: Path) -> Iterator[Path]:
    """Yield the test files that may have a module's tests: its own, or that of a package that contains it."""
    folder = path.parent
    yield ROOT / "tests" / folder.relative_to(PACKAGE) / f"test_{path.stem}.py"
    while folder.parent != PACKAGE and not is_dialect(folder):
        yield ROOT / "tests" / folder.parent.relative_to(PACKAGE) / f"test_{folder.name}.py"
        folder = folder.parent


def names_in(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir() if not path.name.startswith("__")}


@pytest.mark.parametrize("dialect", registry.OURS)
def test_the_dialects_have_the_same_skeleton(dialect: str) -> None:
    folder = PACKAGE / "mappings" / dialect
    allowed = SKELETON.keys() | OWN_MODULES.get(dialect, set())
    further = sorted(names_in(folder) - allowed)
    assert not further, f"mappings/{dialect} has modules that OWN_MODULES does not name:" + listed(further)
    absent = sorted(allowed - names_in(folder))
    assert not absent, f"mappings/{dialect} has no module or package of these names:" + listed(absent)
    packages = {part: names for part, names in SKELETON.items() if names}
    missing = [f"{part}/{name}" for part, names in packages.items() for name in names - names_in(folder / part)]
    assert not missing, f"mappings/{dialect} has no module of these names:" + listed(missing)


def test_the_import_contracts_name_each_dialect() -> None:
    """A dialect that no contract names may import another one, and the gateway may import it."""
    contracts = tomli.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (row,) = [contract["layers"][0] for contract in contracts if contract.get("containers") == ["dragoman.mappings"]]
    hiding = ["dragoman.gateway", "dragoman.adapters"]
    (hidden,) = [contract["forbidden_modules"] for contract in contracts if contract.get("source_modules") == hiding]
    missing = [name for name in registry.OURS if name not in row.split() or f"dragoman.mappings.{name}" not in hidden]
    assert not missing, "add these to both import contracts about dialects in pyproject.toml:" + listed(missing)


def unexplained(line: str) -> bool:
    """Return True if a line suppresses a check without giving a reason."""
    found = SUPPRESSION.search(line)
    return found is not None and not re.search(r"\w{2,}", found["rest"])


def test_the_sources_of_all_three_packages_are_found() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in SOURCES} == set(TOPS)


def test_no_line_is_excluded_from_formatting() -> None:
    """A signature that would need it has too many parameters."""
    skip = "fmt" + ": skip"
    kept = [name(path) for path in SOURCES + TESTS if skip in path.read_text("utf-8")]
    assert not kept, listed(kept)


def test_a_library_whose_private_modules_are_imported_has_an_upper_bound() -> None:
    texts = [path.read_text("utf-8") for path in SOURCES]
    private = {library for text in texts for library in re.findall(r"^from (\w+)(?:\.\w+)*\._\w", text, re.MULTILINE)}
    dependencies = tomli.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert private - {re.split("[<>=]", one)[0] for one in dependencies if "<" in one} == set()
    assert private >= {"aiohttp"}


def test_no_module_is_too_long() -> None:
    lines = {name(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    long = [f"{module}: {count} lines, at most {MAX_LINES}" for module, count in lines.items() if count > MAX_LINES]
    assert not long, listed(long)


def test_no_class_is_too_long() -> None:
    long = [
        f"{name(path)}: {one.name} has {one.lines} lines, at most {MAX_CLASS_LINES}"
        for path in SOURCES
        for one in facts_of(path).classes
        if one.lines > MAX_CLASS_LINES
    ]
    assert not long, listed(long)


def owners_of_classes(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Map each class name to the modules that define it; a file that several dialects have counts as one module.

    The structs of a wire have the wire's names, and are left out.
    """
    owners: dict[str, set[str]] = {}
    for path in paths:
        if "wire" not in path.with_suffix("").parts:
            place = re.sub(rf"^mappings/({'|'.join(registry.OURS)})/", "mappings/DIALECT/", name(path))
            for one in facts_of(path).classes:
                owners.setdefault(one.name, set()).add(place)
    return owners


def test_each_class_name_is_used_once() -> None:
    """A search for a name finds one class."""
    owners = owners_of_classes(SOURCES)
    shared = [f"{title}: {', '.join(sorted(owners[title]))}" for title in sorted(owners) if len(owners[title]) > 1]
    assert not shared, listed(shared)


def test_a_class_name_that_is_used_twice_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "one.py", tmp_path / "two.py", tmp_path / "wire.py"]
    for path in paths:
        path.write_text("class Entry: ...\n")
    monkeypatch.setattr("tests.test_layout.name", lambda path: path.name)
    assert owners_of_classes(paths) == {"Entry": {"one.py", "two.py"}}


def test_no_signature_is_too_long() -> None:
    long = [
        f"{name(path)}: {function.name}"
        for path in SOURCES
        if not name(path).startswith("gateway/cli/")
        for function in facts_of(path).functions
        if function.parameters > MAX_PARAMETERS
    ]
    assert not long, f"more than {MAX_PARAMETERS} parameters:" + listed(long)


def test_each_module_that_does_something_has_its_test_file() -> None:
    bare = [
        f"{name(path)}: expected {' or '.join(name(mirror) for mirror in mirrors(path))}"
        for path in SOURCES
        if path.stem not in {"__init__", "__main__"} and runs(path)
        if not any(mirror.exists() for mirror in mirrors(path))
    ]
    assert not bare, listed(bare)


def test_a_module_is_named_after_what_it_holds() -> None:
    vague = [name(path) for path in SOURCES + TESTS if NO_NOUNS & set(path.stem.split("_"))]
    assert not vague, listed(vague)


def test_an_init_file_contains_no_code() -> None:
    inits = [path for path in SOURCES if path.stem == "__init__"]
    holding = [name(path) for path in inits if facts_of(path).classes or facts_of(path).functions]
    assert not holding, listed(holding)


def test_adapters_mappings_and_each_package_of_the_gateway_list_their_modules() -> None:
    """In `cli` a file bears the name of its command, and in `transports` that of its transport."""
    unnamed = [
        f"{name(path)}: {module}"
        for path in SOURCES
        if path.stem == "__init__" and (path.parts[-3] == "gateway" or path.parts[-2] in ("adapters", "mappings"))
        if path.parts[-2] not in ("cli", "transports")
        for module in sorted(names_in(path.parent))
        if not re.search(rf"\b{module}\b", facts_of(path).docstring)
    ]
    assert not unnamed, listed(unnamed)


def test_only_init_files_define_all() -> None:
    """`__all__` elsewhere repeats the names of the module; an import of a name from its owner needs none."""
    modules = [path for path in SOURCES + TESTS if path.stem != "__init__"]
    listing = [name(path) for path in modules if re.search(r"^__all__\b", path.read_text("utf-8"), re.MULTILINE)]
    assert not listing, listed(listing)


WITHOUT_GROUP = ("tests/services.py",)  # each link under test waits for the writer that it has started


def test_each_task_belongs_to_a_task_group() -> None:
    loose = [
        f"{name(path)}:{line}: {owner}.create_task"
        for path in SOURCES + TESTS
        for line, owner in calls_of_create_task(path.read_text("utf-8"))
        if owner == "asyncio" or ("loop" in owner.lower() and name(path) not in WITHOUT_GROUP)
    ]
    assert not loose, listed(loose)


def test_each_suppression_says_why_on_its_line() -> None:
    silent = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in SOURCES + TESTS
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if unexplained(line)
    ]
    assert not silent, listed(silent)


def test_a_suppression_without_a_reason_is_detected() -> None:
    hush = "# no" + "qa"
    assert unexplained(f"x = 1  {hush}")
    assert unexplained(f"x = 1  {hush}: S311")
    assert unexplained(f"x = 1  {hush}: S311, B008")
    assert not unexplained(f"x = 1  {hush}: S311  # jitter, not a secret")


def module(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(facts: SourceFacts, known: frozenset[str]) -> set[str]:
    """Return the modules of ours that a module imports, also those for the type checker alone."""
    found = set()
    for owner, title in facts.imports:
        whole = f"{owner}.{title}".removeprefix("dragoman.")
        found.add(whole if whole in known else owner.removeprefix("dragoman."))
    return found & known


def circles(graph: Mapping[str, Collection[str]]) -> list[frozenset[str]]:
    """Return the groups of modules that import each other, directly or indirectly."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        open_ends = [start]
        while open_ends:
            new = set(graph[open_ends.pop()]) - seen
            seen |= new
            open_ends += new
        return seen

    reach = {name: reached(name) for name in graph}
    return sorted({frozenset(m for m in reach[n] if n in reach[m]) for n in graph if n in reach[n]}, key=sorted)


def test_modules_import_each_other_without_circles() -> None:
    known = frozenset(map(module, SOURCES))
    found = circles({module(path): imports_of(facts_of(path), known) - {module(path)} for path in SOURCES})
    assert not found, listed(" <-> ".join(sorted(circle)) for circle in found)


def test_an_import_circle_is_detected() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": []}
    assert circles(graph) == [frozenset({"a", "b", "c"})]


def test_an_import_for_the_type_checker_counts() -> None:
    code = (
        "if TYPE_CHECKING:\n    from dragoman.gateway import outbox\n    from dragoman.gateway.timers import Schedule\n"
    )
    known = frozenset({"gateway", "gateway.outbox", "gateway.timers", "gateway.link"})
    assert imports_of(read_facts(code), known) == {"gateway.outbox", "gateway.timers"}


def struct_names(classes: Collection[ClassFacts]) -> set[str]:
    """Return the names of the classes that are data, which others may fill in: structs and FILLED_IN."""
    found = {"Struct", *FILLED_IN}
    while more := {one.name for one in classes if one.bases & found} - found:
        found |= more
    return found


def owners_of(attribute: str, classes: Collection[tuple[str, ClassFacts]]) -> dict[str, set[str]]:
    """Map the classes that have this attribute, also from a base, to the modules that define it."""
    owners: dict[str, set[str]] = {}
    for module, one in classes:
        if attribute in one.attributes:
            owners.setdefault(one.name, set()).add(module)
    for _, one in classes:
        for base in one.bases & owners.keys():
            owners.setdefault(one.name, set()).update(owners[base])
    return owners


def classes_of(name: str, types: Mapping[str, set[str]], classes: Collection[str], depth: int = 2) -> set[str]:
    """Return the classes in the annotations of a name, else those of the names in what is assigned to it."""
    words = types.get(name, set())
    if not (found := words & set(classes)) and depth:
        found = set[str]().union(*(classes_of(word, types, classes, depth - 1) for word in words))
    return found


def assignments_from_outside(modules: Mapping[str, SourceFacts]) -> list[str]:
    """Return the assignments of attributes to objects of classes in other modules, data left out.

    The class of an object is known by its name, first from the module, then from all modules. Where it is not known,
    each class that has the attribute counts, unless the module has such a class itself.
    """
    classes = [(place, one) for place, facts in modules.items() for one in facts.classes]
    data = struct_names([one for _, one in classes])
    everywhere: dict[str, set[str]] = {}
    for facts in modules.values():
        for name, words in facts.types.items():
            everywhere.setdefault(name, set()).update(words)
    found = []
    for place, facts in modules.items():
        for name, attribute in sorted(facts.assigned):
            owners = owners_of(attribute, classes)
            here = {one.name for one in facts.classes if attribute in one.attributes}
            known = (
                classes_of(name, facts.types, owners)
                or here
                or classes_of(name, everywhere, owners, depth=0)
                or set(owners)
            )
            found += [f"{place}: {one}.{attribute}" for one in sorted(known - data) if place not in owners[one]]
    return [one for one in found if one.split(": ")[1] not in ASSIGNED_ANYWHERE]


def test_no_attribute_is_assigned_from_outside() -> None:
    """Pass what an object needs when it is made, or give it a method."""
    found = assignments_from_outside({name(path): facts_of(path) for path in SOURCES})
    assert not found, listed(found)


def test_an_assignment_from_outside_is_detected() -> None:
    owner = read_facts("class Session:\n    def __init__(self):\n        self.on_run = None\n        self.title = None")
    data = read_facts("class Base(Struct):\n    pass\nclass State(Base):\n    title: str\n    on_run: str")
    user = read_facts("def use(session: Session, state: State):\n    session.on_run = print\n    state.title = 'new'")
    unknown = read_facts("one.on_run = print")
    assert assignments_from_outside({"a": owner, "b": data, "c": user}) == ["c: Session.on_run"]
    assert assignments_from_outside({"a": owner, "b": data, "c": unknown}) == ["c: Session.on_run"]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring; diagrams, tables and lists are left out."""
    for paragraph in text.split("\n\n"):
        if not any(line.startswith("    ") or "  " in line.strip() for line in paragraph.splitlines()):
            yield from re.split(r"(?<=[.;:])\s", " ".join(paragraph.split()))


def riddles(text: str) -> Iterator[str]:
    """Yield the problems of a docstring that must be understood alone."""
    if RIDDLE.match(text):
        yield f"begins without its subject: {text[:40]!r}"
    for sentence in sentences(text):
        if len(sentence.split()) > MAX_WORDS:
            yield f"has a sentence of {len(sentence.split())} words: {sentence[:40]!r}"


def test_each_docstring_is_understood_alone() -> None:
    found = [
        f"{name(path)}:{line}: {problem}"
        for path in SOURCES + TESTS
        for line, text in facts_of(path).docstrings
        for problem in riddles(text)
    ]
    assert not found, listed(found)


def test_a_docstring_that_is_a_riddle_is_detected() -> None:
    assert list(riddles("It has acted."))
    assert list(riddles("How soon a line is found."))
    assert list(riddles("The same; one that nobody knows yet is made."))
    assert list(riddles(" ".join(["Return"] * (MAX_WORDS + 1))))
    assert not list(riddles("Return the session, or None."))


def test_each_test_name_begins_with_its_subject() -> None:
    names = [(path, function.name) for path in TESTS for function in facts_of(path).functions]
    found = [f"{name(path)}: {test}" for path, test in names if NAME_RIDDLE.match(test)]
    assert not found, listed(found)


def test_a_test_name_that_is_a_riddle_is_detected() -> None:
    assert NAME_RIDDLE.match("test_what_was_sent_before_a_close_arrives")
    assert not NAME_RIDDLE.match("test_frames_sent_before_a_close_arrive")


def test_the_layers_of_the_gateway_are_those_of_the_design_and_every_module_has_one() -> None:
    contracts = tomli.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["dragoman.gateway"]]
    enforced = [re.split(r"\s*\|\s*", layer.strip()) for layer in layers]
    section = ROOT.joinpath("docs/design.md").read_text("utf-8").split("| layer of `gateway/` |")[1].split("\n\n")[0]
    documented = [re.findall(r"`([\w.]+)`", row.split("|")[1]) for row in section.splitlines()[2:]]
    assert documented == enforced
    named = {module.split(".")[0] for layer in enforced for module in layer}
    there = {path.stem for path in (PACKAGE / "gateway").iterdir() if path.stem not in ("__init__", "__pycache__")}
    assert there == named
