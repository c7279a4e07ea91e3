"""The reports of a launched pod to its parent: which ends it reports, over which connection (docs/dialects/pod.md,
section 11).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.launched.parent import Parent
from dragoman.gateway.session.runs import Run
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import QuestionAsked, RunStarted, TurnEnded
from dragoman.mappings.canonical.values import Failure, Origin
from tests.gateway.pod_messages import say, snapshot

ALERT = say("alert", level="warn", source="pod", message="m", timestamp_ms=1)


@asynccontextmanager
async def parent(path: Path, *shown: dict[str, Any]) -> AsyncIterator[asyncio.Queue[list[Any]]]:
    """Run a parent pod that sends these bytes to each connection; yield the lines that each connection wrote."""
    told: asyncio.Queue[list[Any]] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines(json.dumps(frame).encode() + b"\n" for frame in shown)
        told.put_nowait([json.loads(line) for line in (await reader.read()).splitlines()])
        writer.close()

    async with asyncio.timeout(20), await asyncio.start_unix_server(accept, path):
        yield told


def heard(*events: Event) -> list[Coroutine[Any, Any, None]]:
    """Return the reports that these events of one session cause."""
    reports: list[Coroutine[Any, Any, None]] = []
    child = Parent("/nowhere", "atlas")
    for event in events:
        child.report_turns(Run(turn="t", origin=Origin(), events=[event]), lambda work, _name: reports.append(work))
    for report in reports:
        report.close()
    return reports


async def test_a_report_is_one_line_after_the_alerts_and_the_snapshot_of_the_parent(tmp_path: Path) -> None:
    async with parent(tmp_path / "sock", ALERT, snapshot()) as told:
        await Parent(str(tmp_path / "sock"), "atlas").report_shutdown()
        report = {"method": "pod_event", "params": {"kind": "shut_down", "pod_name": "atlas"}}
        assert await told.get() == [report]


@pytest.mark.parametrize(
    ("ended", "report"),
    [
        (TurnEnded(end="completed"), {"kind": "turn_ended", "pod_name": "atlas"}),
        (
            TurnEnded(end="failed", failure=Failure(cause="model_failed", text="it is down")),
            {"kind": "errored", "pod_name": "atlas", "message": "it is down"},
        ),
        (TurnEnded(end="cancelled"), {"kind": "errored", "pod_name": "atlas", "message": "Cancelled"}),
    ],
)
async def test_the_end_of_a_run_is_reported_as_a_child_pod_does(
    ended: TurnEnded, report: dict[str, str], tmp_path: Path
) -> None:
    spawned: list[asyncio.Task[None]] = []
    async with parent(tmp_path / "sock", snapshot()) as told, asyncio.TaskGroup() as group:
        child = Parent(str(tmp_path / "sock"), "atlas")
        run = Run(turn="t", origin=Origin(), events=[ended], ended=True)
        child.report_turns(run, lambda work, name: spawned.append(group.create_task(work, name=name)))
        assert await told.get() == [{"method": "pod_event", "params": report}]


async def test_a_question_in_words_is_a_note_for_the_parent(tmp_path: Path) -> None:
    async with parent(tmp_path / "sock", snapshot()) as told, asyncio.TaskGroup() as group:
        run = Run(turn="t", origin=Origin(), events=[QuestionAsked(text="Answer approve or deny.", parked=True)])
        Parent(str(tmp_path / "sock"), "atlas").report_turns(run, lambda work, name: group.create_task(work, name=name))
        note = {"method": "notify", "params": {"message": "The pod `atlas` asks: Answer approve or deny."}}
        assert await told.get() == [note]


@pytest.mark.parametrize("end", ["limit_reached", "paused", "rolled_back"])
def test_other_turn_ends_are_not_reported_to_the_parent(end: Any) -> None:
    assert heard(TurnEnded(end=end)) == []


def test_a_run_that_a_child_report_began_is_not_reported_to_the_parent() -> None:
    note, end = RunStarted(kind="notify"), TurnEnded(end="completed")
    assert len(heard(note, end)) == 0
    assert len(heard(note, end, RunStarted(kind="user_send"), end)) == 1
    assert len(heard(note, end, end)) == 1


async def test_a_parent_that_is_gone_or_disconnects_loses_only_the_report(tmp_path: Path) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    await Parent(str(tmp_path / "none"), "atlas").report_shutdown()
    async with await asyncio.start_unix_server(hang_up, tmp_path / "sock"):
        await Parent(str(tmp_path / "sock"), "atlas").report_shutdown()
