"""The output of `dragoman matrix`: for people, for scripts, and as docs/fidelity.md."""

from __future__ import annotations

import io
import json
from typing import Any, get_args

import pytest
from rich.console import Console

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.matrix import markdown, show
from dragoman.mappings.canonical import Command
from dragoman.mappings.fidelity import Cell, matrix
from tests.docs import FIDELITY, README, pairs, with_pairs
from tests.forked_program import dragoman
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import AGENT, CONVERSATION, CREATE, ask, history

CELLS = list(matrix(list(registry.dialects().values())))
PAIR = [cell for cell in CELLS if (cell.source, cell.target) == ("smooth", "pod")]


def shown(cells: list[Cell], **console: Any) -> list[str]:
    out = io.StringIO()
    show(cells, Console(file=out, **console))
    return out.getvalue().splitlines()


# -- the table --------------------------------------------------------------------------------------


def test_a_row_has_a_mark_for_each_pair_in_its_column() -> None:
    lines = shown(CELLS)
    head = next(line for line in lines if line.startswith("event "))
    row = next(line for line in lines if line.startswith("TextDone "))
    for pair, mark in (("smooth->smooth", "*"), ("smooth->pod", "="), ("pod->smooth", "*"), ("pod->pod", "=")):
        begin = head.index(pair)
        assert row[begin : begin + len(pair)].strip() == mark, pair


def test_the_cell_of_an_item_that_a_dialect_never_sends_is_blank() -> None:
    row = next(line for line in shown(CELLS) if line.startswith("Preamble "))
    assert row.split() == ["Preamble", "=", "-", "-", "-"]


def test_a_single_pair_is_shown_with_its_details() -> None:
    row = next(line for line in shown(PAIR) if line.startswith("SubmitInput "))
    assert row.split(maxsplit=2)[1:] == ["~", "lossy      without model, segments.image, segments.file"]


def test_the_legend_explains_each_mark() -> None:
    lines = shown(CELLS)
    assert [line[:2] for line in lines if line[1:2] == " " and ": " in line and line[0] in "=~*-"] == [
        "= ",
        "~ ",
        "* ",
        "- ",
    ]


def test_output_to_a_pipe_has_no_colours_folded_lines_or_trailing_blanks() -> None:
    for cells in (CELLS, PAIR):
        lines = shown(cells, width=20)
        assert not any("\x1b" in line or line != line.rstrip() for line in lines)
        assert len([line for line in lines if line.startswith("SubmitInput ")]) == 1
    assert max(map(len, shown(PAIR, width=20))) > 80


def test_a_terminal_gets_colours() -> None:
    lines = shown(CELLS, width=300, force_terminal=True, color_system="standard", no_color=False)
    assert any("\x1b[" in line for line in lines)
    assert len(lines) == len(shown(CELLS))


def test_a_terminal_of_80_columns_gets_the_whole_table_in_parts() -> None:
    lines = shown(CELLS, width=80, force_terminal=True, color_system=None)
    assert not any("…" in line or len(line.rstrip()) > 80 for line in lines)
    for name in registry.dialects():
        head = next(number for number, line in enumerate(lines) if line.startswith(f"event of {name} "))
        row = next(line for line in lines[head:] if line.startswith("TextDone "))
        for target in registry.dialects():
            begin = (lines[head] + " ").index(f"->{target} ")
            mark = "=" if target == "pod" else "*"
            assert row[begin : begin + len(target) + 2].strip() == mark, (name, target)


# -- the command ------------------------------------------------------------------------------------


def test_json_output_is_one_array_of_all_cells() -> None:
    done = dragoman("matrix", "--json")
    cells = json.loads(done.stdout)
    assert (done.returncode, done.stderr, len(cells)) == (0, "", len(CELLS))
    assert set(cells[0]) == {"direction", "canonical", "source", "target", "kind", "detail"}


def test_from_and_to_choose_the_dialects() -> None:
    cells = json.loads(dragoman("matrix", "--from", "pod", "--to", "smooth", "--json").stdout)
    assert {(cell["source"], cell["target"]) for cell in cells} == {("pod", "smooth")}
    assert "pod->smooth" in dragoman("matrix", "--from", "pod", "--to", "smooth").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "pud"), "unknown dialect 'pud'; the dialects are smooth, pod"),
        (("--to", "pud"), "unknown dialect 'pud'"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_2(arguments: tuple[str, ...], words: str) -> None:
    done = dragoman("matrix", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


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


def test_the_markdown_output_is_the_text_of_the_document() -> None:
    done = dragoman("matrix", "--markdown")
    assert (done.returncode, done.stdout) == (0, markdown(CELLS))


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
