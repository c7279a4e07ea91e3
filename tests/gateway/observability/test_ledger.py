"""The loss ledger: every loss counted, in bounded memory."""

from __future__ import annotations

import pytest
from msgspec import Raw

from dragoman.gateway import registry
from dragoman.gateway.observability.ledger import ENTRIES_MAX, Ledger
from dragoman.mappings.canonical.commands import AnswerOtp, Ping, RenameSession, SubmitInput
from dragoman.mappings.canonical.events import HistorySnapshot, MessageAppended, TurnEnded, UsageReported
from dragoman.mappings.canonical.values import Failure, Message, Role, Text, Usage
from dragoman.mappings.dialect import Loss
from dragoman.mappings.losses import SAMPLE_MAX
from tests.gateway.recording.redaction.corpus import SHAPES


def test_equal_losses_are_one_row_with_the_first_sample() -> None:
    ledger = Ledger()
    for sample, count in (("a", 2), ("b", 3)):
        ledger.record([Loss(kind="Alert", sample=sample, count=count)], session="s", source="pod", target="smooth")
    (entry,) = ledger.entries()
    assert (entry.count, entry.sample, entry.session, entry.source, entry.target) == (5, "a", "s", "pod", "smooth")


def test_rows_differ_by_session_pair_kind_field_and_reason() -> None:
    ledger = Ledger()
    ledger.record([Loss(kind="A"), Loss(kind="B"), Loss(kind="A", field="f"), Loss(kind="A", why="w")])
    for where in ({"session": "s"}, {"source": "pod"}, {"target": "pod"}):
        ledger.record([Loss(kind="A")], **where)
    assert len(ledger.entries()) == 7


def test_events_that_no_client_misses_have_one_row_for_all_sessions() -> None:
    ledger = Ledger()
    for session in ("s", "t"):
        ledger.record([Loss(kind=kind) for kind in ("ModelTurnStarted", "Alert")], session=session, target="smooth")
    rows = [(entry.kind, entry.session, entry.count) for entry in ledger.entries()]
    assert rows == [("ModelTurnStarted", "", 2), ("Alert", "s", 1), ("Alert", "t", 1)]


def test_the_largest_count_comes_first() -> None:
    ledger = Ledger()
    ledger.record([Loss(kind="few"), Loss(kind="many", count=9), Loss(kind="some", count=3)])
    assert [entry.kind for entry in ledger.entries()] == ["many", "some", "few"]


def test_only_the_first_loss_of_a_row_is_encoded() -> None:
    ledger = Ledger()
    ledger.record([Loss(kind="A", sample=RenameSession(session="s", title="t")), Loss(kind="A", sample=object())])
    (entry,) = ledger.entries()
    assert (entry.count, entry.sample) == (2, '{"type":"rename_session","session":"s","title":"t"}')


def test_a_sample_contains_no_one_time_code() -> None:
    ledger = Ledger()
    ledger.record([Loss(kind="AnswerOtp", sample=AnswerOtp(session="s", code="839201"))])
    (entry,) = ledger.entries()
    assert entry.sample == '{"type":"answer_otp","session":"s","code":"[redacted]"}'


def test_a_sample_is_shortened() -> None:
    ledger = Ledger()
    ledger.record([Loss(kind="A", sample="x" * 10_000)])
    assert len(ledger.entries()[0].sample) == SAMPLE_MAX


@pytest.mark.parametrize("at", range(8, len(SHAPES["api_key"])))
def test_a_shortened_sample_contains_no_part_of_a_secret(at: int) -> None:
    ledger = Ledger()
    key = SHAPES["api_key"]
    before = "x" * (at % 2) + "x " * ((SAMPLE_MAX - at) // 2)
    ledger.record([Loss(kind="A", sample=before + key)])
    (entry,) = ledger.entries()
    assert key[:8] not in entry.sample
    assert "[redacted:api_key:" in entry.sample


def test_losses_above_the_limit_of_rows_are_counted_as_other() -> None:
    ledger = Ledger()
    ledger.record([Loss(kind="A", field=str(n)) for n in range(ENTRIES_MAX)], session="s")
    ledger.record([Loss(kind="A", field="new", count=4), Loss(kind="B")], session="t", source="pod")
    ledger.record([Loss(kind="A", field="0")], session="s")
    first, second, *_ = ledger.entries()
    assert (first.kind, first.session, first.source, first.count) == ("other", "", "pod", 5)
    assert (second.field, second.count) == ("0", 2)
    assert len(ledger.entries()) == ENTRIES_MAX + 1


def test_partial_losses_are_counted_by_rule_and_take_no_row_of_whole_losses() -> None:
    ledger, (smooth, pod, pando, codewhale) = Ledger(), map(registry.dialect, ("smooth", "pod", "pando", "codewhale"))
    named = SubmitInput(segments=(Text(text="t"),), model="m", ext={"codewhale.allowed_tools": Raw(b"[]")})
    for target in (pando, pando, smooth, codewhale):
        ledger.count_partial(codewhale, target, [named, Ping()], commands=True)
    ledger.count_partial(smooth, pod, [TurnEnded(end="completed", ext={"smooth.citations": Raw(b"null")})])
    ledger.count_partial(smooth, pod, [TurnEnded(end="completed", ext={"smooth.citations": Raw(b"[1]")})])
    used = Usage(input_tokens=1, cache_read_tokens=1)
    ledger.count_partial(pod, smooth, [UsageReported(usage=used), TurnEnded(end="completed", usage=used)])
    roles: tuple[Role, ...] = ("user", "system")
    for role in roles:
        said = Message(role=role, text="t")
        told = [MessageAppended(message=said), HistorySnapshot(request="r", items=(said,))]
        ledger.count_partial(pod, codewhale, told)
    ledger.count_partial(pod, smooth, [HistorySnapshot(request="r", items=(Message(role="user", text="t", at=5),))])
    failed = TurnEnded(end="failed", failure=Failure(cause="busy", text="t"))
    ledger.count_partial(smooth, pando, [failed])  # the text is told
    ledger.count_partial(smooth, pando, [TurnEnded(end="cancelled")], [Loss(kind="TurnEnded")])
    assert ledger.entries() == []
    rows = [(row.source, row.target, row.kind, row.field, row.count) for row in ledger.partial()]
    assert rows == [
        ("codewhale", "pando", "SubmitInput", "model, ext.allowed_tools", 2),
        ("codewhale", "smooth", "SubmitInput", "ext.allowed_tools", 1),
        ("smooth", "pod", "TurnEnded", "ext.citations", 1),
        ("pod", "codewhale", "HistorySnapshot", "items.system", 1),
        ("smooth", "pando", "TurnEnded", "end, failure.cause", 1),
    ]
