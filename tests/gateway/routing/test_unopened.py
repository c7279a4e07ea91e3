"""Sessions that wait for their backend are found by their client, and by the names that clients chose."""

from __future__ import annotations

from dragoman.gateway.routing.unopened import UnopenedSessions
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.routing.counted_route import CountedRoute
from tests.gateway.smooth_client_messages import CREATE
from tests.gateway.smooth_server_messages import CREATED, acknowledged
from tests.idle import settle


async def test_a_client_that_leaves_takes_only_its_own_unopened_sessions_along() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        for name in ("a", "b"):
            made.join(name).sends(CREATE)
        await settle()
        unopened = made.router._all._unopened
        of_b = unopened.sessions_of(made.clients["b"].link)
        await made.clients["a"].transport.hangs_up()
        assert list(unopened) == of_b
        assert len(of_b) == 1


async def test_a_session_that_its_backend_names_like_that_of_another_user_is_not_shown() -> None:
    async with in_memory_gateway(upstream="smooth", share="owner") as made:
        for name in ("ann", "bob"):
            made.join(name, principal=name).sends(CREATE)
            await settle()
            (asked,) = made.pod.news()
            await made.pod.says(acknowledged(asked["requestId"], **CREATED))
        (answer,) = made.clients["bob"].news()
        assert (answer["type"], answer["error"]["message"]) == ("error", "session not found")
        (session,) = made.router.sessions
        assert [link.id for link in session.presence.links] == ["ann"]


async def test_a_chosen_name_is_in_use_until_its_session_is_opened_and_then_nothing_is_left_of_it() -> None:
    async with in_memory_gateway() as made:
        unopened, link = UnopenedSessions(), made.join("a").link
        unopened.add(made.session, link)
        unopened.choose(made.session, "pando", "mine")
        assert unopened.is_chosen("pando", "mine")
        unopened.remove(made.session)
        assert not unopened.is_chosen("pando", "mine")
        assert not any(vars(unopened).values())


async def test_a_chosen_name_stays_with_the_first_session_that_got_it() -> None:
    async with in_memory_gateway() as made:
        route, unopened, link = CountedRoute(), UnopenedSessions(), made.join("a").link
        first, second = (route.open_session(route.connect(name)) for name in "ab")
        for session in (first, second):
            unopened.add(session, link)
            unopened.choose(session, "pando", "mine")
        unopened.remove(second)
        assert unopened.is_chosen("pando", "mine")
        unopened.remove(first)
        assert not unopened.is_chosen("pando", "mine")
