"""The smallest dialect of another package: a server that says text, a client that asks for it.

CONTRIBUTING.md names this file as the example. tests/test_acme.py installs it as a package beside dragoman.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec import Struct, structs

from dragoman.mappings.canonical import Batch, Command, Commands, Event, Events, commands, events
from dragoman.mappings.canonical.values import Text, flatten
from dragoman.mappings.codec import Codec
from dragoman.mappings.dialect import (
    Burst,
    Clock,
    DeltaType,
    Dialect,
    Direction,
    Frame,
    NewId,
    Rendered,
    Step,
    TextWriter,
    Translator,
)
from dragoman.mappings.losses import Losses, command_direction
from dragoman.mappings.rules import Lossy, Rules

# -- the wire ----------------------------------------------------------------------------------------


class Say(Struct, frozen=True, tag_field="type", tag="say", forbid_unknown_fields=True):
    """A piece of an answer."""

    text: str


class Done(Struct, frozen=True, tag_field="type", tag="done", forbid_unknown_fields=True):
    """The end of an answer."""


class Ask(Struct, frozen=True, tag_field="type", tag="ask", forbid_unknown_fields=True):
    """A question of the user."""

    text: str


SERVER = Codec[Say | Done]("acme", Say | Done, max_depth=8)
CLIENT = Codec[Ask]("acme", Ask, max_depth=8)

# -- from the wire to the canonical model, and back --------------------------------------------------

TO_EVENT = Rules[[], Event]("acme -> canonical events")
FROM_EVENT = Rules[[Losses], Say | Done]("canonical events -> acme")
TO_COMMAND = Rules[[], Command]("acme -> canonical commands")
FROM_COMMAND = Rules[[Losses], Ask]("canonical commands -> acme")


@TO_EVENT.rule(Say, produces=(events.TextDelta,))
def say(message: Say) -> Events:
    return (events.TextDelta(text=message.text),)


@TO_EVENT.rule(Done, produces=(events.TurnEnded,))
def done(_message: Done) -> Events:
    return (events.TurnEnded(end="completed"),)


@FROM_EVENT.rule(events.TextDelta, produces=(Say,))
def text_delta(event: events.TextDelta, _context: Losses) -> tuple[Say, ...]:
    return (Say(event.text),)


@FROM_EVENT.rule(
    events.TurnEnded, produces=(Done,), fidelity=Lossy(("end", "text", "message", "usage", "failure"))
)  # it only says that the answer is over
def turn_ended(_event: events.TurnEnded, _context: Losses) -> tuple[Done, ...]:
    return (Done(),)


@TO_COMMAND.rule(Ask, produces=(commands.SubmitInput,))
def ask(message: Ask) -> Commands:
    return (commands.SubmitInput(segments=(Text(text=message.text),)),)


@FROM_COMMAND.rule(commands.SubmitInput, produces=(Ask,), fidelity=Lossy(("segments", "model")))
def submit_input(command: commands.SubmitInput, _context: Losses) -> tuple[Ask, ...]:
    return (Ask(flatten(command.segments)),)


# A new version of dragoman may have further types; `none` of all others counts them as lost.
FROM_EVENT.carried(events.TextDone, "the pieces before it")
FROM_EVENT.none("acme has only text", *(kind for kind in get_args(Event) if kind not in FROM_EVENT.entries))
FROM_COMMAND.none("acme has only inputs", *(kind for kind in get_args(Command) if kind not in FROM_COMMAND.entries))

# -- the state of a link, and of a rendering ---------------------------------------------------------


def write_events(burst: Burst[Event]) -> Rendered:
    context = Losses()
    messages = (message for event in burst.items for message in FROM_EVENT.functions[type(event)](event, context))
    return Rendered(frames=[SERVER.encode(message) for message in messages], losses=context.take_losses())


FROM_SERVER = Direction(codec=SERVER, to_canonical=TO_EVENT, from_canonical=FROM_EVENT, write=write_events)
FROM_CLIENT = command_direction(CLIENT, TO_COMMAND, FROM_COMMAND)


class ServerTranslator(Translator[Command, Event]):
    """The link with a client. All clients are told everything, so no answer goes to one alone."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        self._new_id = new_id

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Read inputs, and give each a request id: acme has none, and the gateway tells commands apart by it."""
        step = Step[Command]()
        FROM_CLIENT.receive(frames, step)
        for burst in step.bursts:
            burst.items[:] = [structs.replace(command, request=self._new_id()) for command in burst.items]
        return step

    def send(self, items: Sequence[Event]) -> Step[Command]:
        return Step()


class ClientTranslator(Translator[Event, Command]):
    """The link with a server."""

    def __init__(self, clock: Clock, new_id: NewId, monotonic: Clock) -> None: ...

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        step = Step[Event]()
        FROM_SERVER.receive(frames, step)
        return step

    def send(self, items: Sequence[Command]) -> Step[Event]:
        """Write inputs, which a server always accepts; tell that acme has no other command."""
        inputs = [command for command in items if isinstance(command, commands.SubmitInput)]
        written = FROM_CLIENT.write(Burst(items=list(inputs)))
        answers: list[Event] = [
            events.TurnAccepted(request=command.request)
            if command in inputs
            else events.Reply(request=command.request, failure=FROM_COMMAND.refusal_of(type(command)))
            for command in items
        ]
        return Step(bursts=[Burst(items=answers)], frames=written.frames, losses=written.losses)


class Projection:
    """The rendering of a session. It has no state, because each event becomes the same frame for everybody."""

    def __init__(self, request: str = "", view: str = "") -> None: ...

    def render(self, batch: Batch) -> Rendered:
        return write_events(Burst(items=list(batch.events)))

    def text_writer(self, delta: DeltaType) -> TextWriter | None:
        return None

    def copy(self, request: str | None = None) -> Projection:
        return self


DIALECT = Dialect(
    name="acme",
    generations=("1",),
    events=FROM_SERVER,
    commands=FROM_CLIENT,
    server=ServerTranslator,
    client=ClientTranslator,
    projection=Projection,
    single_session=True,
)
