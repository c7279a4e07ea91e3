"""Sessions in a backend's store are listed beside the open ones, and can be opened by the id in the list."""

from __future__ import annotations

from dragoman.gateway.backends.catalog import ROW_MAX, ROWS_MAX, WAITING_MAX
from dragoman.gateway.backends.conversations import ConversationsKind
from dragoman.gateway.config.model import Limits
from dragoman.gateway.ingress import Ingress
from tests.gateway.codewhale_messages import answers, asked, editor_with_thread, line, refuses, shown, thread
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import ask
from tests.gateway.smooth_server_messages import Frame, acknowledged, page
from tests.idle import settle

OWN, KEPT, OTHER = (f"0198c3a1-0000-4000-8000-0000000000d{n}" for n in range(3))
LIST = line(9, "thread/list")


def rows(frame: Frame) -> list[str]:
    """Return the threads of a list."""
    return [row["id"].removeprefix("thread-") for row in frame["result"]["threads"]]


async def test_a_list_has_each_open_and_each_stored_session_once() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        client.sends(LIST)
        threads = [
            thread(f"thread-{KEPT}", updated_at=5),
            thread(f"thread-{OWN}", name="Atlas"),
            thread("thread-ghost"),
        ]
        await answers(made, "thread/list", threads=threads)
        (listed,) = client.news()
        assert rows(listed) == [OWN, KEPT, "ghost"], "newest first: what is open here was opened just now"
        assert listed["result"]["threads"][0]["name"] == "Atlas", "as the backend says now"


async def test_only_the_first_rows_of_a_list_that_is_longer_than_asked_for_are_read() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        client.sends(LIST)
        threads = [thread(f"thread-{number}", updated_at=ROWS_MAX - number) for number in range(ROWS_MAX + 3)]
        await answers(made, "thread/list", threads=threads)
        lost = [(entry.why, entry.count) for entry in made.ledger.entries() if entry.kind == "SessionsListed"]
        assert lost == [(f"after the first {ROWS_MAX:,} rows of a list", 3)]


async def test_a_session_that_had_an_id_before_its_thread_is_listed_once() -> None:
    """A codewhale 0.10.2 gives its threads ids that are no UUIDs."""
    async with in_memory_gateway(upstream="codewhale") as made:
        pod = made.join("terminal", dialect="pod")
        pod.sends({"method": "run", "params": {"input": [{"kind": "text", "content": "hi"}]}})
        await answers(made, "thread/start", **shown("thr_0c2f9e5a", "started"))
        client = made.join("editor", dialect="codewhale")
        client.sends(LIST)
        await answers(made, "thread/list", threads=[thread("thr_0c2f9e5a", updated_at=5)])
        assert rows(client.news()[0]) == ["thr_0c2f9e5a"]


async def test_a_list_of_archived_sessions_includes_those_of_the_store() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        await client.says(line(9, "thread/list", include_archived=True))
        assert asked(made, "thread/list")[-1]["params"]["include_archived"] is True
        await answers(made, "thread/list", threads=[thread(f"thread-{KEPT}", status="archived")])
        (listed,) = client.news()
        assert [row["status"] for row in listed["result"]["threads"] if row["id"].endswith(KEPT)] == ["archived"]
        client.sends(LIST)
        await answers(made, "thread/list", threads=[thread(f"thread-{OWN}", status="archived")])
        assert rows(client.news()[0]) == [], "it was put away by somebody who is no client of ours"


async def test_a_listed_session_that_a_client_deletes_is_neither_listed_nor_resumed_any_more() -> None:
    """A codewhale cannot delete a thread, so the gateway hides it."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client, threads = await editor_with_thread(made, f"thread-{OWN}"), [thread(f"thread-{KEPT}", updated_at=5)]
        client.sends(LIST)
        await answers(made, "thread/list", threads=threads)
        caller = made.join("v", dialect="pando", calls=True)
        caller.calls({"method": "db.write", "params": {"method": "DeleteSession", "params": KEPT}})
        client.news()
        client.sends(LIST, line(10, "thread/resume", thread_id=f"thread-{KEPT}"))
        await answers(made, "thread/list", threads=threads)
        listed, refused = client.news()
        assert rows(listed) == [OWN]
        assert (refused["id"], refused["error"]["code"]) == (10, -32004), "as for an unknown thread"
        assert len(asked(made, "thread/resume")) == 0


async def test_an_input_that_waits_for_the_backend_fails_when_another_client_deletes_its_session() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        await client.says(line(9, "thread/message", thread_id=f"thread-{OWN}", input="hi"))
        caller = made.join("v", dialect="pando", calls=True)
        caller.calls({"method": "db.write", "params": {"method": "DeleteSession", "params": OWN}})
        await made.settle()
        (failed,) = client.news()
        assert (failed["id"], failed["error"]["message"]) == (9, "the session was deleted")


async def test_lists_at_the_same_time_share_one_request_to_the_store() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        clients = [made.join(f"editor {n}", dialect="codewhale") for n in range(2)]
        for client in clients:
            client.sends(LIST)
        await answers(made, "thread/list", threads=[thread(f"thread-{KEPT}")])
        assert [rows(client.news()[0]) for client in clients] == [[KEPT], [KEPT]]
        assert len(asked(made, "thread/list")) == 1


async def test_a_store_that_does_not_answer_in_time_adds_its_last_list_and_is_counted() -> None:
    """A codewhale 0.10.2 lists nothing while a turn runs (docs/dialects/codewhale.md, section 12)."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        await client.says(LIST)
        assert client.news() == []
        await made.time.elapses(Limits().connect_deadline)
        assert rows(client.news()[0]) == [OWN]
        assert made.losses("SessionsListed") == 1
        await client.says(LIST)
        await answers(made, "thread/list", threads=[thread(f"thread-{KEPT}", updated_at=5)])
        assert rows(client.news()[0]) == [OWN, KEPT]
        await client.says(LIST)
        await made.time.elapses(Limits().connect_deadline)
        assert rows(client.news()[0]) == [OWN, KEPT]
        assert made.losses("SessionsListed") == 2


async def test_a_store_that_has_no_list_adds_nothing() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        client.sends(LIST)
        await refuses(made, "thread/list", -32601, "unsupported method: thread/list")
        assert rows(client.news()[0]) == [OWN]


async def test_a_backend_that_cannot_be_reached_adds_nothing() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        made.away = True
        client.sends(LIST)
        await made.settle()
        assert rows(client.news()[0]) == [OWN]


async def test_a_backend_that_is_lost_before_it_answers_is_asked_once_more() -> None:
    """A codewhale 0.10.2 exits if it is started while the processes of a killed gateway end."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        await client.says(LIST)
        await made.pod.transport.hangs_up()
        assert client.news() == []
        await answers(made, "thread/list", threads=[thread(f"thread-{KEPT}", updated_at=5)])
        assert rows(client.news()[0]) == [OWN, KEPT]
        await client.says(LIST)
        for _ in range(2):
            await made.pod.transport.hangs_up()
            await made.settle()
        assert rows(client.news()[0]) == [OWN]
        assert len(asked(made, "thread/list")) == 4


async def test_waiting_lists_are_bounded() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        told: list[int] = []
        assert isinstance(made.router.backend, ConversationsKind)
        catalog = made.router.backend._listable()
        assert catalog is not None
        for _ in range(WAITING_MAX + 1):
            catalog.ask(False, lambda found: told.append(len(found)))
        assert told == [0]
        await answers(made, "thread/list", threads=[thread(f"thread-{KEPT}")])
        assert told == [0] + [1] * WAITING_MAX


async def test_a_store_is_not_listed_if_its_sessions_may_have_owners() -> None:
    async with in_memory_gateway(upstream="codewhale", share="owner") as made:
        client = await editor_with_thread(made, f"thread-{OWN}")
        await client.says(LIST)
        assert rows(client.news()[0]) == [OWN]
        assert asked(made, "thread/list") == []


async def test_a_listed_conversation_opens_under_the_id_in_the_list() -> None:
    """The id is the same for every client, also for one of another dialect than the backend's (docs/translation.md,
    rule 3.1).
    """
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("widget")
        client.sends(ask("list_conversations", "l"))
        await answers(made, "thread/list", threads=[thread(f"thread-{KEPT}", preview="Hi", updated_at=5)])
        (row,) = client.news()[0]["data"]["conversations"]
        assert (row["conversationId"], row["title"]) == (KEPT, "Hi")
        client.sends(ask("create_conversation_session", "c", conversationId=KEPT, agentId=OTHER))
        await answers(made, "thread/resume", **shown(f"thread-{KEPT}"))
        await answers(made, "thread/read", **shown(f"thread-{KEPT}", "ok", (("user", "Hi"), ("assistant", "Hello"))))
        (opened,) = client.news()
        assert opened["data"]["conversationId"] == KEPT
        client.sends(ask("get_conversation_messages", "h", sessionId=opened["data"]["sessionId"]))
        await answers(made, "thread/read", **shown(f"thread-{KEPT}", "ok", (("user", "Hi"), ("assistant", "Hello"))))
        assert len(client.news()[0]["data"]["messages"]) == 2


async def test_a_listed_conversation_with_a_very_long_title_is_shown_and_its_name_is_not_remembered() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("widget")
        client.sends(ask("list_conversations", "l"))
        titles = ["x" * ROW_MAX, "Hi"]
        stored = [thread(f"thr_{number}", preview=title, updated_at=5) for number, title in enumerate(titles)]
        await answers(made, "thread/list", threads=stored)
        listed = client.news()[0]["data"]["conversations"]
        assert [row["title"] for row in listed] == titles
        for number, row in enumerate(listed):
            client.sends(
                ask("create_conversation_session", f"c{number}", conversationId=row["conversationId"], agentId=OTHER)
            )
        await settle()
        assert [call["params"]["thread_id"] for call in asked(made, "thread/resume")] == ["thr_1"]


async def only_listed_id(stored: list[Frame]) -> str:
    """Return the id that a gateway lists for the only one of these threads."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("widget")
        client.sends(ask("list_conversations", "l"))
        await answers(made, "thread/list", threads=stored)
        (row,) = client.news()[0]["data"]["conversations"]
        return str(row["conversationId"])


async def test_a_conversation_whose_id_was_derived_can_be_resumed_after_a_restart_of_the_gateway() -> None:
    """Only a list tells which thread of a codewhale 0.10.2 has the id (docs/translation.md, rule 3.1)."""
    stored = [thread("thr_0c2f9e5a", preview="Hi", updated_at=5)]
    listed = await only_listed_id(stored)
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("widget")
        client.sends(ask("create_conversation_session", "c", conversationId=listed, agentId=OTHER))
        await answers(made, "thread/list", threads=stored)
        assert asked(made, "thread/resume")[0]["params"]["thread_id"] == "thr_0c2f9e5a"
        await answers(made, "thread/resume", **shown("thr_0c2f9e5a"))
        await answers(made, "thread/read", **shown("thr_0c2f9e5a", "ok", (("user", "Hi"),)))
        (opened,) = client.news()
        assert opened["data"]["conversationId"] == listed


async def test_a_listener_resumes_the_conversation_that_a_list_shows_under_its_id() -> None:
    """The id was derived from that of a thread of a codewhale 0.10.2, which does not know it."""
    stored, said = [thread("thr_0c2f9e5a", preview="Hi", updated_at=5)], (("user", "Hi"), ("assistant", "Hello"))
    listed = await only_listed_id(stored)
    async with in_memory_gateway(upstream="codewhale") as made:
        ingress = Ingress(endpoint="pod+unix:/x", session=listed)
        terminal = made.join("terminal", dialect="pod", ingress=ingress)
        await refuses(made, "thread/resume", -32004, "thread not found")
        await answers(made, "thread/list", threads=stored)
        assert asked(made, "thread/resume")[-1]["params"]["thread_id"] == "thr_0c2f9e5a"
        await answers(made, "thread/resume", **shown("thr_0c2f9e5a"))
        await answers(made, "thread/read", **shown("thr_0c2f9e5a", "ok", said))
        await settle()
        entries = terminal.news()[-1]["data"]["entries"]
        assert [entry["segments"] for entry in entries if entry["kind"] == "user_input"] == [
            [{"kind": "text", "content": "Hi"}]
        ]


async def test_a_smooth_server_lists_its_conversations_and_a_codewhale_client_reads_one() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        client = made.join("editor", dialect="codewhale")
        await client.says(LIST)
        (query,) = made.pod.news()
        assert (query["action"], query["limit"]) == ("list_conversations", 200)
        listed = [{"conversationId": KEPT, "title": "Atlas", "updatedAt": "2026-05-09T21:28:20Z", "messageCount": 2}]
        await made.pod.says(acknowledged(query["requestId"], conversations=listed, nextCursor="more", hasMore=True))
        assert rows(client.news()[0]) == [KEPT]
        assert made.losses("SessionsListed") == 1, "older ones are not asked for"
        await client.says(line(10, "thread/read", thread_id=f"thread-{KEPT}"))
        (create,) = made.pod.news()
        assert (create["action"], create["conversationId"]) == ("create_conversation_session", KEPT)
        assert create["agentId"], "a server wants one"
        ids = {"sessionId": OWN, "conversationId": KEPT, "agentId": OTHER, "agentName": "smooth-agent"}
        await made.pod.says(acknowledged(create["requestId"], **ids))
        await made.pod.says(page(made.pod.news()[0]["requestId"]))
        (read,) = client.news()
        assert read["result"]["thread_id"] == f"thread-{KEPT}"
        await client.says(LIST)
        assert made.pods[0].news()[0]["action"] == "list_conversations"
        await made.time.elapses(Limits().connect_deadline)
        assert client.news()[0]["result"]["threads"][0]["name"] == "Atlas"
