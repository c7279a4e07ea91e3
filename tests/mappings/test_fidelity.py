"""The fidelity matrix is measured: a rule that declares more or less than it does fails here."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Raw, structs

from dragoman.gateway import registry
from dragoman.mappings.canonical import Command, Event, Unmapped, commands, events
from dragoman.mappings.dialect import Dialect, Direction
from dragoman.mappings.fidelity import Cell, matrix
from dragoman.mappings.rules import EXACT, Emulated, Fidelity, Lossy, Nothing, Rule, RuleTable
from tests.mappings.golden import documented, golden, said
from tests.mappings.measured import QUESTIONS, differing, faults, misheard
from tests.test_layout import listed

GATEWAY = Path(registry.__file__).parent
DIALECTS = list(registry.dialects().values())
DIRECTIONS = [(dialect, name) for dialect in DIALECTS for name in ("events", "commands")]
each_direction = pytest.mark.parametrize(
    ("dialect", "name"), DIRECTIONS, ids=lambda value: getattr(value, "name", value)
)


def made_by_the_gateway() -> set[str]:
    """Return the names of the kinds of events that the gateway makes. Pieces of text are always a backend's."""
    kinds = {kind.__name__ for kind in get_args(Event) if kind is not Unmapped and not kind.streamed}
    paths = [path for part in ("session", "backends", "routing") for path in (GATEWAY / part).rglob("*.py")]
    calls = [node for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    described = [arg for call in calls if getattr(call.func, "attr", "") == "describe" for arg in call.args]
    made = [*(call.func for call in calls), *described]
    return kinds & {getattr(node, "attr", getattr(node, "id", "")) for node in made}


def test_an_event_that_the_gateway_makes_has_a_grade_for_each_pair() -> None:
    cells = Counter(cell.canonical for cell in matrix(DIALECTS) if cell.direction == "event")
    shown = sorted(made_by_the_gateway() & set(cells))
    assert "ModelTurnEnded" in shown  # which the loss ledger counts for each backend
    assert {kind: cells[kind] for kind in shown} == dict.fromkeys(shown, len(DIALECTS) ** 2)


# -- the rules, measured ----------------------------------------------------------------------------


@each_direction
def test_each_rule_from_canonical_does_what_it_declares(dialect: Dialect, name: str) -> None:
    direction: Direction[Any] = getattr(dialect, name)
    for kind in get_args(Event if name == "events" else Command):
        if kind is not Unmapped:
            declared = direction.from_canonical.entries[kind].fidelity
            assert list(faults(dialect, direction, kind, declared)) == [], kind


@each_direction
def test_each_rule_to_canonical_does_what_it_declares(dialect: Dialect, name: str) -> None:
    direction: Direction[Any] = getattr(dialect, name)
    frames = defaultdict[type, list[bytes]](list)
    for frame in golden(dialect.name).frames(name):
        frames[type(direction.codec.decode(frame))].append(frame)
    missing = [kind.__qualname__ for kind in direction.to_canonical.entries if kind not in frames]
    assert not missing, f"tests/mappings/{dialect.name}/golden.py has no frame of these messages:" + listed(missing)
    for kind, rule in direction.to_canonical.entries.items():
        assert list(misheard(direction, kind, rule.fidelity, frames[kind])) == [], kind


@each_direction
def test_every_documented_field_stands_in_a_golden_frame(dialect: Dialect, name: str) -> None:
    direction: Direction[Any] = getattr(dialect, name)
    seen = {field for frame in golden(dialect.name).frames(name) for field in said(direction.codec.decode(frame))}
    if dialect.name == "pod":  # a message without content: null is read, nothing is written
        seen |= {field for field in documented(direction) if field.rpartition(".")[2] in {"data", "params"}}
    missing = sorted(documented(direction) - seen)
    assert not missing, f"no frame in tests/mappings/{dialect.name}/golden.py has these fields:" + listed(missing)


# -- the measure itself -----------------------------------------------------------------------------

LIES: list[tuple[str, str, type[Any], Fidelity, str]] = [
    ("pod", "events", events.TextDelta, Lossy(("text",)), "text is declared lost, and is not"),
    ("pod", "events", events.TextDelta, Emulated("x"), "declared emulated, and it comes back as it is"),
    ("pod", "events", events.TextDelta, Nothing("x"), "declared none: 1 frames, 0 losses counted"),
    ("pod", "events", events.UsageReported, EXACT, "usage.cost_usd is lost, and that is not declared"),
    ("pod", "events", events.ErrorReported, EXACT, "cause is lost, and that is not declared"),
    ("pod", "events", events.MessageAppended, Lossy(("message.id",)), "message.segments.image is lost"),
    ("smooth", "events", events.TurnEnded, Lossy(("end",)), "text is lost, and that is not declared"),
    ("smooth", "events", events.SessionsListed, EXACT, "sessions.status is lost, and that is not declared"),
    ("pod", "events", events.Preamble, EXACT, "took 0 frames and came back as []"),
    ("smooth", "events", events.Alert, Emulated("x"), "declared emulated, and 1 losses are counted"),
    ("pod", "commands", commands.SubmitInput, Lossy(("model",)), "segments.file is lost, and that is not declared"),
    ("pod", "commands", commands.GetSession, Lossy(("session",)), "session is declared lost, and is not"),
]


@pytest.mark.parametrize(
    ("dialect", "name", "kind", "lie", "told"), LIES, ids=[f"{d}-{k.__name__}-{f.kind}" for d, _, k, f, _ in LIES]
)
def test_a_false_fidelity_declaration_is_detected(
    dialect: str, name: str, kind: type[Any], lie: Fidelity, told: str
) -> None:
    known = registry.dialect(dialect)
    assert any(told in fault for fault in faults(known, getattr(known, name), kind, lie))


def test_a_rule_that_writes_less_than_it_declares_is_found() -> None:
    smooth = registry.dialect("smooth")
    rule = Rule((Raw,), Emulated("x"))  # of an event that smooth does not write by itself
    lying = structs.replace(smooth.events, from_canonical=RuleTable("lying", {events.TextDone: rule}))
    told = "declared to be written in another form, and nothing is written"
    assert list(faults(smooth, lying, events.TextDone, rule.fidelity)) == [told]


def test_a_rule_that_reads_less_than_it_declares_is_found() -> None:
    pod = registry.dialect("pod").events
    frames = [b'{"event":"text_delta","data":{"text":"a","more":1}}']  # stands for a field that the rule forgets
    (kind,) = {type(pod.codec.mend(frame)[0]) for frame in frames}
    assert list(misheard(pod, kind, EXACT, frames)) == ["data.more is lost, and that is not declared"]
    assert list(misheard(pod, kind, Lossy(("data.more",)), frames)) == []


def test_added_fields_are_distinguished_from_lost_ones() -> None:
    sent = events.ToolCallFinished(call="c", summary="s")
    back = events.ToolCallFinished(call="d", summary="s", output="o")
    assert differing(sent, back) == ({"call"}, {"output"})


# -- the matrix that is read off them ---------------------------------------------------------------


ANSWERS = (events.SessionOpened, events.SessionsListed, events.HistorySnapshot)


def cell(canonical: str, source: str, target: str) -> Cell | None:
    found = [c for c in matrix(DIALECTS) if (c.canonical, c.source, c.target) == (canonical, source, target)]
    assert len(found) < 2
    return found[0] if found else None


def kind_of(canonical: str, source: str, target: str) -> str:
    found = cell(canonical, source, target)
    return found.kind if found is not None else ""


def test_the_matrix_has_cells_of_every_grade_between_every_two_dialects() -> None:
    cells = list(matrix(DIALECTS))
    assert {(c.source, c.target) for c in cells} == {(a.name, b.name) for a in DIALECTS for b in DIALECTS}
    assert {c.kind for c in cells} == {"exact", "lossy", "emulated", "none"}
    assert all(c.detail for c in cells if c.kind != "exact")


def test_a_kind_that_the_source_cannot_express_has_no_cell() -> None:
    assert cell("GoalUpdated", "pod", "smooth") is None
    assert cell("Preamble", "pod", "smooth") is None


def test_a_dialect_is_exact_toward_itself_except_for_some_answers() -> None:
    lossy = {(c.source, c.canonical) for c in matrix(DIALECTS) if c.source == c.target and c.kind == "lossy"}
    assert lossy == {(d.name, kind.__name__) for d in DIALECTS for kind in golden(d.name).inexact}


def test_answers_that_only_the_link_can_read_are_measured_through_a_link() -> None:
    declared = {
        kind
        for d, name in DIRECTIONS
        for rule in getattr(d, name).to_canonical.entries.values()
        for kind in rule.answers
    }
    assert declared == {*ANSWERS, events.Reply, events.Pong, events.TurnAccepted} <= set(QUESTIONS)


def test_text_is_exact_and_a_lossy_cell_names_the_lost_fields() -> None:
    assert kind_of("TextDelta", "pod", "smooth") == "exact"
    found = cell("SubmitInput", "smooth", "pod")
    assert found is not None
    assert (found.kind, found.detail) == ("lossy", "without model, segments.image, segments.file")


def test_a_command_that_only_the_gateway_answers_is_emulated() -> None:
    found = cell("Ping", "smooth", "pod")
    assert found is not None
    assert (found.kind, found.detail) == ("emulated", "as the gateway's own answer")
    assert kind_of("Compact", "pod", "smooth") == "none"
