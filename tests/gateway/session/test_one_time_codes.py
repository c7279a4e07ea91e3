"""One-time codes (docs/translation.md, rule 3.3): who is asked for one, how it is verified, and what happens then.

The backend is a smooth server. `p` is a pod client, which is asked in words, and `a` a smooth client.
"""

from __future__ import annotations

from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import delta, done, echo, problem, run
from tests.gateway.session.test_questions import BEGAN, ENDED, ask, heard, joined, message_send, needs, opened
from tests.gateway.smooth_server_messages import (
    answered,
    code_sent,
    code_valid,
    code_wanted,
    code_wrong,
    said,
    taken,
    told,
    verified,
)


def code_asked(made: InMemoryGateway) -> Script:
    """Return a script in which `p` sent "Pay" and the ended turn asks it for a one-time code."""
    return (
        made.asks_server("p", "Pay")
        .server_sends(taken("$t"), code_wanted("$t"), code_sent("$t"), answered("$t", ""))
        .receives(
            "p",
            echo("Pay"),
            *BEGAN,
            delta("$wanted"),
            done("$wanted"),
            delta("$sent"),
            done("$sent"),
            *ENDED,
        )
    )


async def test_a_requested_code_does_not_park_the_turn() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await code_asked(made).sends("p", run("Never mind")).server_receives(told("$u", "Never mind"))
        assert "Pay 5." in names["$wanted"]
        assert "***12" in names["$sent"]


async def test_the_refused_input_is_sent_again_after_a_right_code() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            code_asked(made)
            .sends("p", run("code 123456"))
            .server_receives(verified("$v", "123456"))
            .server_sends(code_valid("$v"))
            .receives("p", *heard("code 123456"), delta("$verdict"), done("$verdict"), *ENDED)
            .server_receives(told("$u", "Pay"))
            .server_sends(taken("$u"), said("$u", "Paid."), answered("$u", "Paid."))
            .receives("p", echo("Pay"), *BEGAN, delta("Paid."), done("Paid."), *ENDED)
        )
        assert "sent again" in names["$verdict"]


async def test_a_right_code_of_a_pando_client_has_one_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await code_asked(made)
        caller = made.join("v", dialect="pando", calls=True)
        caller.judged = False  # its oracle judges subscribers
        caller.calls(message_send(made, "1", "code 123456"))
        await made.settle()
        script = made.script().server_receives(verified("$v", "123456")).server_sends(code_valid("$v"))
        script = script.server_receives(told("$u", "Pay")).server_sends(taken("$u"), answered("$u", "Paid."))
        await script.ignores("p", "v")
        assert caller.frames() == [{"jsonrpc": "2.0", "id": "1", "result": {"ok": True}}]
        assert not made.ledger.entries(), "a second answer is counted as one that answers no call"


async def test_without_otp_resend_the_client_is_asked_to_repeat_its_input() -> None:
    async with in_memory_gateway(upstream="smooth", otp_resend=False) as made:
        names = await (
            code_asked(made)
            .sends("p", run("/code 123456"))
            .server_receives(verified("$v", "123456"))
            .server_sends(code_valid("$v"))
            .receives("p", *heard("/code 123456"), delta("$text"), done("$text"), *ENDED)
            .server_receives()
        )
        assert "again" in names["$text"]


async def test_a_wrong_code_is_asked_for_again_in_a_new_run_until_the_attempts_are_used_up() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        over = ENDED
        names = await (
            code_asked(made)
            .sends("p", run("code 1"))
            .server_receives(verified("$v", "1"))
            .server_sends(code_wrong("$v", 1))
            .receives("p", *heard("code 1"), delta("$one"), done("$one"), *over)
            .sends("p", run("code 2"))
            .server_receives(verified("$w", "2"))
            .server_sends(code_wrong("$w", 0))
            .receives("p", *heard("code 2"), delta("$none"), done("$none"), *over)
            .sends("p", run("code 3"))
            .server_receives(told("$u", "code 3"))
        )
        assert "1 try is left" in names["$one"]
        assert "left" not in names["$none"]


async def test_a_smooth_client_verifies_a_code_in_its_own_form_and_repeats_its_input_itself() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            joined(code_asked(made), "a")
            .sends("a", ask("verify_otp", "v1", code="9"))
            .server_receives(verified("$v", "9"))
            .server_sends(code_wrong("$v", 2))
            .receives("a", needs("v1", "otp_invalid"))
            .sends("a", ask("verify_otp", "v2", code="123456"))
            .server_receives(verified("$w", "123456"))
            .server_sends(code_valid("$w"))
            .receives("a", needs("v2", "otp_verified"))
            .server_receives()
        )


async def test_a_requested_code_after_text_is_a_paragraph_of_its_own() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            opened(made)
            .server_sends(code_wanted("$t"), code_sent("$t"), answered("$t", ""))
            .receives("p", delta("$wanted"), done("$wanted"), delta("$sent"), done("$sent"), *ENDED)
        )
        assert not names["$wanted"].startswith("\n")
        assert names["$sent"].startswith("\n\n")


async def test_a_codewhale_client_reads_of_its_wrong_code_before_the_answer_to_its_input() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await code_asked(made)
        editor = made.join("editor", dialect="codewhale")
        thread = f"thread-{made.session.state.id}"
        editor.sends(line(1, "thread/resume", thread_id=thread))
        editor.sends(line(2, "thread/message", thread_id=thread, input="code 1"))
        await made.settle()
        names = await (
            made.script()
            .server_receives(verified("$v", "1"))
            .server_sends(code_wrong("$v", 1))
            .receives("p", *heard("code 1"), delta("$one"), done("$one"), *ENDED)
            .ignores("editor")
        )
        frames = editor.frames()
        assert [frame["delta"] for frame in frames if frame.get("type") == "response_delta"] == [names["$one"]]
        assert (frames[-1]["id"], frames[-1]["result"]["status"]) == (2, "accepted")


async def test_a_code_in_words_needs_the_role_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await code_asked(made)
        made.clients["p"].link.roles = frozenset({"watch", "send"})
        needed = "you may not do this here: it needs the role `answer`"
        refusal = problem("invalid_request", needed)
        await made.script().sends("p", run("code 123456")).receives("p", refusal)
        await made.script().sends("p", run("Go on")).server_receives(told("$u", "Go on"))
