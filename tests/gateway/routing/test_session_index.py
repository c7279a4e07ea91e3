"""The index of the sessions of a route by their names."""

from __future__ import annotations

import pytest
from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.routing.session_index import NAME_SIZE, NAMES_MAX, SessionIndex, completed
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import Gap
from dragoman.mappings.canonical.values import Message, SessionSummary
from dragoman.mappings.pando.vocabulary import keep
from tests.gateway.in_memory import SESSION, in_memory_gateway
from tests.gateway.listed import listed
from tests.gateway.pod_messages import run
from tests.gateway.smooth_client_messages import CREATE, SHOWN
from tests.gateway.smooth_server_messages import CONVERSATION as SERVER_CONVERSATION
from tests.gateway.smooth_server_messages import CREATED, SERVER_SESSION, acknowledged
from tests.idle import settle


async def test_a_session_is_found_by_its_ids_in_a_dialect_that_was_imported_after_it_began() -> None:
    async with in_memory_gateway() as made:
        dialects = {"pod": registry.dialect("pod")}
        index = SessionIndex(lambda: dialects)
        index.add(made.session)
        assert index.find_session(SHOWN) is None
        dialects["smooth"] = registry.dialect("smooth")
        assert index.find_session(SHOWN) is made.session


async def test_a_session_is_added_while_a_thread_imports_another_dialect() -> None:
    def import_another(*_ids: object) -> tuple[str, ...]:
        dialects["smooth"] = registry.dialect("smooth")
        return ()

    async with in_memory_gateway() as made:
        dialects = {"pod": structs.replace(registry.dialect("pod"), public_ids=import_another)}
        index = SessionIndex(lambda: dialects)
        index.add(made.session)
        assert index.find_session(SHOWN) is made.session


async def test_the_names_that_clients_choose_for_one_session_are_bounded() -> None:
    """A client that opens the only session of a backend may choose a new name each time."""
    async with in_memory_gateway() as made:
        index = made.router._all.index
        for number in range(NAMES_MAX):
            index.add_name(made.session, f"n-{number}")
        assert index.find_session("n-0") is None
        assert index.find_session(f"n-{NAMES_MAX - 1}") is index.find_session(SESSION) is made.session
        assert len(index.names(made.session)) == NAMES_MAX


async def test_a_very_long_name_of_a_session_is_left_out() -> None:
    async with in_memory_gateway() as made:
        index = made.router._all.index
        for name in ("n" * NAME_SIZE, "n" * (NAME_SIZE + 1)):
            index.add_name(made.session, name)
        assert index.find_session("n" * NAME_SIZE) is made.session
        assert index.find_session("n" * (NAME_SIZE + 1)) is None


async def test_a_session_named_by_a_client_is_kept_before_anybody_used_it() -> None:
    async with in_memory_gateway() as made:
        assert made.session.presence.vacant
        made.session.state.chosen_ids = keep(id="ours")
        assert not made.session.presence.vacant


async def test_a_name_stays_with_the_session_that_has_it_while_that_session_lives() -> None:
    """A gateway in front of one pod opens the same conversation for each client. If the name moved, a client that
    names its session would be attached to a second one, and shown each event twice.
    """
    async with in_memory_gateway(upstream="smooth") as made:
        asker = made.join("widget")
        await asker.says(CREATE)
        await made.pod.says(acknowledged(made.pod.news()[0]["requestId"], **CREATED))
        made.join("terminal", dialect="pod").sends(run("Hello"))
        await settle()
        await made.pod.says(acknowledged(made.pod.news()[0]["requestId"], **CREATED))
        first, second = made.router.sessions
        assert first.state.backend_ids == second.state.backend_ids
        index = made.router._all.index
        assert index.find_session(SERVER_SESSION) is index.find_session(SERVER_CONVERSATION) is first
        made.router._all.drop(second)
        assert index.find_session(SERVER_SESSION) is first


@pytest.mark.parametrize(("stored", "forgotten", "count"), [(True, False, 1), (False, False, 2), (True, True, 2)])
async def test_the_count_of_messages_is_the_backend_s_if_it_answers_histories_and_has_not_forgotten_them(
    stored: bool, forgotten: bool, count: int
) -> None:
    """The smooth server in Python does not store the text of a turn that was cancelled; the transcript has it. A
    history is answered from the transcript if the backend has forgotten the conversation (docs/translation.md, rule
    4.7).
    """
    async with in_memory_gateway() as made:
        made.session.state.transcript += [Message(role="user", text="one"), Message(role="user", text="two")]
        if forgotten:
            made.session.state.forgotten = Gap(text="the backend has forgotten the conversation", context=True)
        row = SessionSummary(session=SESSION, title="one", messages=1)
        assert completed(made.session, row, stored=stored).messages == count


async def test_a_list_shows_the_count_of_a_smooth_server_and_not_its_own() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        client = made.join("widget")
        await client.says(CREATE)
        await made.pod.says(acknowledged(made.pod.news()[0]["requestId"], **CREATED))
        (session,) = made.router.sessions
        session.state.transcript += [Message(role="user", text="one"), Message(role="user", text="two")]
        row = SessionSummary(session=session.state.id, title="one", messages=1)
        assert [row.messages for row in listed(made.router, ListSessions(), [row]).sessions] == [1]
