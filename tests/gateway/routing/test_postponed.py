from __future__ import annotations

from dragoman.gateway.routing.postponed import PostponedActions
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import Text
from tests.dialects import parts
from tests.gateway.in_memory import in_memory_gateway
from tests.idle import settle

SIZE = 1 << 20  # bytes
IMAGE = b"A" * SIZE


def message(number: int) -> bytes:
    """Return an input of a codewhale client for a session that is not open here."""
    thread = b"thread-11111111-1111-4111-8111-%012d" % number
    image = b'{"mime":"image/png","dataBase64":"%s"}' % IMAGE
    params = b'{"thread_id":"%s","input":"hi","images":[%s]}' % (thread, image)
    return b'{"jsonrpc":"2.0","id":%d,"method":"thread/message","params":%s}' % (number, params)


async def test_an_action_counts_as_memory_of_its_client_until_it_runs_once() -> None:
    async with in_memory_gateway() as made:
        link, ran = made.join("client").link, list[str]()
        postponed, before = PostponedActions(), link.meter.size
        command = SubmitInput(segments=(Text(text="x" * SIZE),))
        act = postponed.postpone(link, lambda: ran.append("ran"), command)
        assert link.meter.size - before >= SIZE
        act()
        act()
        assert (ran, postponed.waiting, link.meter.size) == (["ran"], {}, before)


async def test_actions_of_a_client_that_is_gone_are_dropped_and_counted() -> None:
    async with in_memory_gateway() as made:
        link, ran = made.join("client").link, list[str]()
        postponed, before = PostponedActions(), link.meter.size
        commands = (None, SubmitInput(segments=(Text(text="hi"),)))
        acts = [postponed.postpone(link, lambda: ran.append("ran"), command) for command in commands]
        postponed.drop(link)
        for act in acts:
            act()
        assert (ran, postponed.waiting, link.meter.size) == ([], {}, before)
        losses = [(entry.kind, entry.count) for entry in made.services.ledger.entries()]
        assert losses == [("frame", 1)], "the first one had no command"


async def test_clients_whose_commands_wait_for_the_list_of_a_backend_cannot_exceed_the_memory() -> None:
    async with in_memory_gateway(upstream=str(parts("smooth").upstream)) as made:
        budget = made.services.memory
        budget.change_limit(4 * SIZE)
        clients = [made.join(f"client {number}", dialect="codewhale") for number in range(8)]
        await settle()
        for number, client in enumerate(clients):
            client.sends(message(number))
            await settle()
            assert budget.used < 5 * SIZE
        alive = [client.link.id for client in clients if client.link.alive]
        assert len(alive) < 5
        assert list(made.router._all.postponed.waiting) == alive
