"""The output of `dragoman matrix`: for people, for scripts, and as docs/fidelity.md."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.mappings.canonical import Command
from dragoman.mappings.fidelity import Cell
from tests.docs import CELLS, FIDELITY, README, markdown, pairs, with_pairs
from tests.gateway.cli.program import Run
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import AGENT, CONVERSATION, CREATE, ask, history

# -- the command ------------------------------------------------------------------------------------


def tables(out: str) -> dict[str, dict[str, list[str]]]:
    """Return the rows of each table, by its title and their kind."""
    parts = [[line.split() for line in part.splitlines()] for part in out.strip().split("\n\n")]
    return {" ".join(head[:3]): {kind: grades for kind, *grades in rows} for head, *rows in parts}


def test_each_dialect_has_a_table_of_its_events_and_of_its_commands(dragoman: Run) -> None:
    code, out, err = dragoman("matrix")
    assert (code, err) == (0, "")
    shown = tables(out)
    assert list(shown) == [f"{what} of {name}" for what in ("event", "command") for name in registry.dialects()]
    assert out.startswith("event of smooth ")
    assert out.splitlines()[0].split()[3:] == ["to", "smooth", "to", "pod", "to", "pando", "to", "codewhale"]
    assert shown["event of pod"]["TextDone"] == ["emulated", "exact", "emulated", "emulated"]


def test_a_dialect_has_no_row_for_what_it_never_sends(dragoman: Run) -> None:
    shown = tables(dragoman("matrix")[1])
    assert [name for name, rows in shown.items() if "Preamble" in rows] == ["event of smooth"]


def test_a_terminal_of_80_columns_shows_whole_rows(dragoman: Run) -> None:
    assert max(len(line.rstrip()) for line in dragoman("matrix")[1].splitlines()) <= 80


def test_a_single_pair_is_shown_with_its_details(dragoman: Run) -> None:
    lines = dragoman("matrix", "--from", "smooth", "--to", "pod")[1].splitlines()
    row = next(line for line in lines if "SubmitInput" in line)
    assert row.rstrip().split(maxsplit=3)[2:] == ["lossy", "without model, segments.image, segments.file"]


def test_json_output_is_one_array_of_all_cells(dragoman: Run) -> None:
    code, out, err = dragoman("matrix", "--json")
    cells = json.loads(out)
    assert (code, err, len(cells)) == (0, "", len(CELLS))
    assert set(cells[0]) == {"direction", "canonical", "source", "target", "kind", "detail"}


def test_from_and_to_choose_the_dialects(dragoman: Run) -> None:
    cells = json.loads(dragoman("matrix", "--from", "pod", "--to", "smooth", "--json")[1])
    assert {(cell["source"], cell["target"]) for cell in cells} == {("pod", "smooth")}
    assert list(tables(dragoman("matrix", "--from", "pod")[1])) == ["event of pod", "command of pod"]


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_an_unknown_dialect_is_refused(dragoman: Run, option: str) -> None:
    code, out, err = dragoman("matrix", option, "pud")
    assert (code, out) == (2, "")
    assert err.startswith("error: unknown dialect 'pud'; the dialects are smooth, pod")


# -- docs/fidelity.md -------------------------------------------------------------------------------


def test_the_fidelity_document_is_generated_from_the_rules() -> None:
    assert FIDELITY.read_text("utf-8") == markdown(CELLS), "docs/fidelity.md is stale: run `make docs`"


def test_the_table_of_pairs_in_the_readme_is_generated_from_the_rules() -> None:
    readme = README.read_text("utf-8")
    assert readme == with_pairs(readme), "the README's table of pairs is stale: run `make docs`"


def test_a_pair_shows_what_arrives_at_its_client_and_at_its_backend() -> None:
    rows = [line.split(" | ") for line in pairs(CELLS).splitlines()]
    of = {
        (client.strip("| "), backend.strip("| ")): cell.strip("| ")
        for client, *cells in rows[2:]
        for backend, cell in zip(rows[0][1:], cells, strict=True)
    }
    assert len(of) == len(registry.dialects()) ** 2
    assert of["`smooth` client", "`smooth` backend"] == "text, reasoning, tools, questions, cancel"
    assert of["`pod` client", "`smooth` backend"] == "text, reasoning, tools, *questions*, cancel"
    assert "reasoning" not in of["`pando` client", "`pod` backend"], "visibility never widens"


def test_the_document_gives_a_reason_for_everything_that_is_not_exact() -> None:
    lines = set(markdown(CELLS).splitlines())
    for cell in CELLS:
        if cell.kind != "exact":
            assert f"| `{cell.canonical}` | {cell.kind} | {cell.detail} |" in lines


def test_a_vertical_bar_in_a_detail_is_escaped() -> None:
    cell = Cell(direction="event", canonical="Gap", source="a", target="b", kind="none", detail="x | y")
    assert "| `Gap` | none | x \\| y |" in markdown([cell]).splitlines()


# -- what is known by hand --------------------------------------------------------------------------


async def test_commands_that_the_gateway_answers_by_the_matrix_never_reach_the_backend() -> None:
    async with in_memory_gateway() as made:
        smooth, pod = made.join("a"), made.join("b", dialect="pod")
        await smooth.says(CREATE)
        smooth.sends(
            {"action": "ping", "requestId": "1"},
            CREATE | {"requestId": "2", "conversationId": CONVERSATION, "agentId": AGENT},
            ask("get_session", "3"),
            {"action": "list_conversations", "requestId": "4"},
            history("5"),
        )
        await pod.says({"method": "list_visible_pods"}, {"method": "shutdown"})
        await made.time.elapses(Limits().open_deadline)  # the backend tells no history
        answered = {frame["requestId"] for frame in smooth.frames() if frame["type"] != "error"}
        assert answered == {"open", "1", "2", "3", "4", "5"}
        assert [frame["event"] for frame in pod.frames()][-2:] == ["visible_pods", "shutdown"]
        assert [peer.frames() for peer in made.pods if peer.frames()] == []
        said = {"GetHistory", "GetSession", "ListSessions", "OpenSession", "Ping", "ResumeSession", "ShutdownBackend"}
        assert {kind.__name__ for kind in get_args(Command) if getattr(kind, "gateway_answers", False)} == said
