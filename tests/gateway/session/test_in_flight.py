"""Commands that wait for the backend: each until its answer or its deadline, and a limited number of them."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import cast

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.fair_queue import TURN
from dragoman.gateway.session.in_flight import InFlight
from dragoman.gateway.session.ports import Client, Effects
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import Compact, OpenSession, RenameSession, SubmitInput
from dragoman.mappings.canonical.values import Text
from tests.gateway.in_memory import ManualClock
from tests.services import services


def backend(written: list[Command]) -> Effects:
    """Return a session whose backend notes the commands that are sent to it."""
    return cast("Effects", SimpleNamespace(backend=SimpleNamespace(send=written.extend)))


class Flight:
    """Commands in flight, with those that were written and those that were late."""

    def __init__(self, limits: Limits | None = None, *, upstream: str = "pod") -> None:
        self.time, self.written, self.late = ManualClock(), list[Command](), list[tuple[str, str]]()
        self.weight = 0
        numbers = count(1)
        made = services(self.time, limits=limits, new_id=lambda: f"r{next(numbers)}")
        self.budget = made.queue.budget
        self.commands = InFlight(
            registry.dialect(upstream), made, backend(self.written), lambda *late: self.late.append(late), self._count
        )

    def _count(self, change: int) -> None:
        self.weight += change


def test_a_command_counts_as_work_of_the_step() -> None:
    flight = Flight()
    before = flight.budget.left
    flight.commands.forward(None, Compact())
    assert before - flight.budget.left == TURN


def test_the_error_of_a_late_codewhale_says_why_and_what_to_do() -> None:
    """A codewhale 0.10.2 opens no thread while another runs a turn (docs/dialects/codewhale.md, section 12)."""
    flight = Flight(upstream="codewhale")
    flight.commands.forward(None, OpenSession())
    flight.time.passes(9)
    [(_, why)] = flight.late
    assert why.startswith("the backend did not answer in time: ")
    assert "one turn at a time" in why
    assert "CODEWHALE_HOME" in why


def test_a_command_is_refused_while_too_many_are_pending() -> None:
    flight, told = Flight(Limits(pending_commands=3)), list[tuple[str, ...]]()
    client = cast("Client", SimpleNamespace(dialect=registry.dialect("smooth"), refuse=lambda *why: told.append(why)))
    for _ in range(3):
        flight.commands.forward(None, Compact())
    assert flight.commands.forward(client, Compact(request="c")) == ""
    assert told == [("c", "busy", "too many commands wait for the backend (`pending_commands`)")]
    flight.commands.settle("r1")
    assert flight.commands.forward(client, Compact()) != ""


def test_another_session_takes_what_clients_asked_and_not_what_the_gateway_did() -> None:
    flight, client = Flight(), cast("Client", SimpleNamespace(dialect=registry.dialect("pod")))
    flight.commands.forward(None, Compact())
    asked = SubmitInput(request="c", segments=(Text(text="Hi"),))
    flight.commands.forward(client, asked)
    assert flight.commands.take_all() == [(client, asked)]
    assert list(flight.commands.requests()) == ["r1"]
    assert len(flight.time.waiting) == 1


def test_commands_count_with_their_weight_until_they_are_settled() -> None:
    flight = Flight()
    flight.commands.forward(
        None, SubmitInput(segments=(Text(text="x" * 5_000),)), next_command=RenameSession(title="y" * 700)
    )
    assert 5_700 <= flight.weight < 6_000
    flight.commands.settle("r1")
    assert flight.weight == 0


def test_without_memory_every_command_is_late_and_says_why() -> None:
    flight = Flight()
    flight.commands.forward(None, Compact())
    flight.commands.forward(None, Compact())
    flight.commands.drop()
    why = "the gateway is out of memory (`memory`), and the backend has not answered yet"
    assert flight.late == [("r1", why), ("r2", why)]


def test_a_command_that_there_is_no_memory_for_is_not_written() -> None:
    written = list[Command]()

    def count(change: int) -> None:
        if change > 0:
            commands.drop()

    def late(request: str, _why: str) -> None:
        commands.settle(request)

    commands = InFlight(registry.dialect("pod"), services(ManualClock()), backend(written), late, count)
    assert commands.forward(None, Compact(request="c")) == ""
    assert (written, len(commands)) == ([], 0)
