"""The canonical model: its JSON round trip, its schema, the visibility of events, and the prelude of a state."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any, get_args

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, json

from dragoman.mappings.canonical import Command, Event, OpenTurn, SessionState, Unmapped, commands, events, prelude
from dragoman.mappings.canonical.facts import Facts
from dragoman.mappings.canonical.state import (
    ALERTS_KEPT,
    ALERTS_SIZE,
    CallBlock,
    ReasoningBlock,
    ResultBlock,
    TextBlock,
)
from dragoman.mappings.canonical.values import (
    FileAttachment,
    FileRef,
    ImageAttachment,
    KnowledgeRef,
    Message,
    Paste,
    Reasoning,
    Text,
    ToolCall,
    UnknownSegment,
    WorkflowInvoke,
    flatten,
    snake_case,
)
from tests.mappings.round_trip import any_json
from tests.samples import full, least, samples

UNIONS = {"event": Event, "command": Command}
each_union = pytest.mark.parametrize("union", UNIONS.values(), ids=UNIONS)
TYPES = list(dict.fromkeys(chain.from_iterable(map(get_args, UNIONS.values()))))


# -- JSON -------------------------------------------------------------------------------------------


@each_union
def test_each_item_survives_json(union: Any) -> None:
    decoder = json.Decoder(union)
    for item in samples(union):
        assert decoder.decode(json.encode(item)) == item


def test_a_full_sample_writes_every_field_and_a_minimal_one_only_the_required() -> None:
    for kind in TYPES:
        fields = {f.encode_name: f.required for f in msgspec.structs.fields(kind)}
        assert set(json.decode(json.encode(full(kind)))) == {*fields, "type"}, kind
        needed = {name for name, required in fields.items() if required}
        if kind is not Unmapped:  # the one type that writes its defaults
            assert set(json.decode(json.encode(least(kind)))) == {*needed, "type"}, kind


JSON = any_json(numbers=st.integers(-(1 << 53), 1 << 53))


@given(JSON, st.text(max_size=20))
def test_raw_fields_keep_any_json_as_it_is(value: Any, text: str) -> None:
    raw = Raw(json.encode(value))
    for item in (
        events.StateSnapshot(node=text, state=raw, ext={"pod.x": raw}),
        events.Reply(request=text, result=raw),
        commands.OpenSession(agent=text, metadata=raw),
        commands.AnswerInteraction(question=text, values=raw),
    ):
        union: Any = Event if type(item) in get_args(Event) else Command
        back = json.Decoder(union).decode(json.encode(item))
        assert back == item
        assert json.decode(json.encode(back)) == json.decode(json.encode(item))


@each_union
def test_tags_are_unique_and_spell_the_name_of_their_type(union: Any) -> None:
    tags = {kind.__struct_config__.tag: kind for kind in get_args(union)}
    assert len(tags) == len(get_args(union))
    assert {kind: tag for tag, kind in tags.items()} == {kind: snake_case(kind.__name__) for kind in get_args(union)}


def test_events_and_commands_share_no_tag_but_that_of_the_unknown() -> None:
    assert set(get_args(Event)) & set(get_args(Command)) == {Unmapped}
    tags = [{kind.__struct_config__.tag for kind in get_args(union)} for union in UNIONS.values()]
    assert tags[0] & tags[1] == {"unmapped"}


@pytest.mark.parametrize(("module", "union"), [(events, Event), (commands, Command)])
def test_every_type_of_a_module_is_in_its_union(module: Any, union: Any) -> None:
    structs = {kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    assert {kind for kind in structs if kind.__module__ == module.__name__ and "Base" not in kind.__name__} == set(
        get_args(union)
    ) - {Unmapped}


def test_items_are_frozen_and_untracked() -> None:
    for kind in TYPES:
        config = kind.__struct_config__
        assert (config.frozen, config.gc, config.tag_field) == (True, False, "type"), kind


# -- the schema -------------------------------------------------------------------------------------


@cache
def validator(union: Any) -> jsonschema.Draft202012Validator:
    (schema,), components = json.schema_components((union,), ref_template="#/$defs/{name}")
    document = {**schema, "$defs": components}
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@each_union
def test_each_item_is_valid_by_the_schema(union: Any) -> None:
    for item in samples(union):
        validator(union).validate(json.decode(json.encode(item)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "text_delta"},
        {"type": "text_delta", "text": 7},
        {"type": "text_dance", "text": "x"},
        {"text": "x"},
        {"type": "turn_ended", "end": "exploded"},
        {"type": "message_appended", "message": {"type": "message", "role": "dog", "text": "x"}},
    ],
)
def test_the_schema_refuses_what_the_model_refuses(wrong: dict[str, Any]) -> None:
    assert not validator(Event).is_valid(wrong)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Event)


# -- visibility (docs/translation.md, rule 3.8) -----------------------------------------------------

REASONING = {events.ReasoningStarted, events.ReasoningDelta, events.ReasoningDone}
INTERNAL: set[type] = {
    *(events.Alert, events.Gap),
    *(events.ModelRetry, events.ModelContinuation),
    *(events.CompactionStarted, events.CompactionDone, events.CompactionFailed),
    *(events.MemoryWork, events.McpStartup, events.LifecycleReport, events.StoreChanged),
    *(events.RunStarted, events.PodInspected, events.PodAttached),
    Unmapped,
}


def test_each_event_has_the_visibility_of_the_contract() -> None:
    public = dict.fromkeys(get_args(Event), "public")
    expected = public | dict.fromkeys(REASONING, "reasoning") | dict.fromkeys(INTERNAL, "internal")
    assert {kind: kind.visibility for kind in get_args(Event)} == expected


def test_the_facts_are_of_the_type_and_never_on_the_wire() -> None:
    encoded = json.encode([full(kind) for kind in get_args(Event)])
    facts = [name.encode() for name in vars(Facts)["__annotations__"]]
    assert not [name for name in facts if b'"%b":' % name in encoded]


def test_pieces_of_a_text_are_streamed_and_nothing_else_is() -> None:
    streamed = {kind for kind in get_args(Event) if kind.streamed}
    assert streamed == {events.TextDelta, events.ReasoningDelta, events.ToolOutputDelta}


def test_events_with_a_request_answer_a_command_except_heartbeats() -> None:
    named = {kind for kind in get_args(Event) if "request" in kind.__struct_fields__}
    assert {kind for kind in get_args(Event) if kind.answers != "never"} == named - {events.Heartbeat}


# -- segments (docs/translation.md, rule 3.10) ------------------------------------------------------


def test_segments_are_flattened_without_separators_as_pods_do() -> None:
    segments = (
        *(Text(text="see "), Paste(text="a\nb", id=1, chars=3, lines=2), FileRef(path="x.py")),
        *(KnowledgeRef(slug="style"), WorkflowInvoke(slug="release")),
    )
    assert flatten(segments) == "see a\nb@x.py#style/release"


def test_segments_without_a_text_form_are_flattened_to_nothing() -> None:
    assert flatten([ImageAttachment(url="u"), FileAttachment(name="f", url="u"), UnknownSegment()]) == ""


# -- the state --------------------------------------------------------------------------------------


def user(text: str, turn: str = "") -> Message:
    return Message(role="user", text=text, turn=turn)


def answer(text: str, turn: str = "", id: str = "") -> Message:
    return Message(role="assistant", text=text, turn=turn, id=id)


def listed(*items: Any) -> list[tuple[str, str, str]]:
    messages = SessionState(id="s", transcript=list(items)).messages()
    return [(message.role, message.text, message.id) for message in messages]


@pytest.mark.parametrize(
    "said",
    [
        (answer("a", "t1"), answer("b", "t2")),
        (answer("a"), answer("b")),  # of no turn
        (user("a", "t"), user("b", "t")),
    ],
)
def test_answers_of_different_turns_and_all_inputs_are_messages_of_their_own(said: tuple[Message, Message]) -> None:
    assert [text for _, text, _ in listed(*said)] == ["a", "b"]


def test_a_message_list_shows_neither_system_nor_reasoning_nor_tools() -> None:
    hidden = [
        *(Message(role="system", text="s", turn="t"), Reasoning(text="r", turn="t")),
        *(ToolCall(call="c", name="n", arguments="{}"), full(ToolCall)),
    ]
    assert listed(*hidden) == []


def test_listing_messages_changes_no_item() -> None:
    state = SessionState(id="s", transcript=[answer("a", "t"), answer("b", "t")])
    assert state.messages() == state.messages()
    assert [item.text for item in state.transcript if isinstance(item, Message)] == ["a", "b"]


def test_alerts_are_bounded_and_the_oldest_is_dropped() -> None:
    state = SessionState(id="s")
    for n in range(ALERTS_KEPT + 3):
        state.add_alert(events.Alert(level="warn", source="pod", text=str(n)))
    assert (len(state.alerts), state.alerts[0].text) == (ALERTS_KEPT, "3")
    state.add_alert(events.Alert(level="warn", source="pod", text="x" * ALERTS_SIZE))
    assert [len(alert.text) for alert in state.alerts] == [ALERTS_SIZE]
    state.add_alert(events.Alert(level="warn", source="pod", text="x" * (ALERTS_SIZE + 1)))
    assert [len(alert.text) for alert in state.alerts] == [ALERTS_SIZE], "it does not replace shorter ones"


def test_states_share_no_list() -> None:
    one, two = SessionState(id="a"), SessionState(id="b")
    one.transcript.append(user("x"))
    one.alerts.append(events.Alert(level="warn", source="pod", text="x"))
    assert (two.transcript, list(two.alerts)) == ([], [])


# -- the prelude (docs/design.md, section 5) --------------------------------------------------------


def turn(**fields: Any) -> OpenTurn:
    texts = [block for block in fields.get("blocks", ()) if isinstance(block, TextBlock)]
    return OpenTurn(id="t", message="m", texts=texts, **fields)


def shown(open_turn: OpenTurn | None) -> list[Any]:
    return prelude(SessionState(id="s", turn=open_turn))


def test_between_turns_there_is_no_prelude() -> None:
    assert shown(None) == []


def test_an_open_block_is_shown_as_one_delta_and_a_closed_one_is_done() -> None:
    assert shown(turn(blocks=[TextBlock(parts=["a", "b"])])) == [events.TextDelta(text="ab")]
    assert shown(turn(blocks=[TextBlock(parts=["a", "b"], done=True)])) == [
        events.TextDelta(text="ab"),
        events.TextDone(text="ab"),
    ]


def test_reasoning_is_shown_as_reasoning() -> None:
    assert shown(turn(blocks=[ReasoningBlock(parts=["h", "m"], done=True)])) == [
        *(events.ReasoningStarted(), events.ReasoningDelta(text="hm"), events.ReasoningDone(text="hm")),
    ]


def test_an_empty_open_reasoning_block_is_only_started() -> None:
    assert shown(turn(blocks=[ReasoningBlock(), TextBlock()])) == [events.ReasoningStarted()]


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (CallBlock(call="c", name="n"), []),
        (CallBlock(call="c", name="n", parts=['{"a"', ":1"]), [('{"a":1', False)]),
        (CallBlock(call="c", name="n", parts=["x"], arguments="{}"), [("{}", True)]),
    ],
)
def test_a_call_is_shown_with_its_known_arguments(block: CallBlock, told: list[tuple[str, bool]]) -> None:
    started, *rest = shown(turn(blocks=[block]))
    assert started == events.ToolCallStarted(call="c", name="n")
    assert [(event.json, event.done) for event in rest] == told


def test_results_are_shown_in_their_place() -> None:
    result = events.ToolCallFinished(call="c", name="n", output="o")
    call = CallBlock(call="c", name="n", arguments="{}", result=result)
    assert [type(event) for event in shown(turn(blocks=[call, ResultBlock(result=result)]))] == [
        *(events.ToolCallStarted, events.ToolCallArguments, events.ToolCallFinished),
    ]


def test_model_turn_comes_first_errors_and_result_last() -> None:
    error = events.ErrorReported(cause="internal", text="e")
    open_turn = turn(
        blocks=[TextBlock(parts=["a"])],
        model_turn=events.ModelTurnStarted(index=3),
        errors=[error],
        result="limit_reached",
        result_ext={"pod.x": Raw(b"1")},
    )
    assert shown(open_turn) == [
        *(events.ModelTurnStarted(index=3), events.TextDelta(text="a"), error),
        events.TurnResult(end="limit_reached", ext={"pod.x": Raw(b"1")}),
    ]


def test_the_text_of_a_turn_is_that_of_its_text_blocks() -> None:
    blocks = [TextBlock(parts=["a", "b"]), ReasoningBlock(parts=["no"]), CallBlock(call="c", name="n"), TextBlock()]
    assert turn(blocks=[*blocks, TextBlock(parts=["c"])]).text() == "abc"


@pytest.mark.parametrize(
    ("blocks", "text", "corrected"),
    [
        (["a", "b"], "ab", ["a", "b"]),
        (["a", "x"], "ab", ["a", "b"]),
        (["x", "b"], "ab", ["a", "b"]),
        (["a", "x", "y"], "ab", ["a", "b"]),
        (["a", "c"], "abc", ["a", "bc"]),
        (["a", "x"], "a", ["a"]),
        (["a"], "ab", ["a", "b"]),
        ([], "a", ["a"]),
    ],
)
def test_the_text_of_a_turn_is_corrected_where_it_differs(blocks: list[str], text: str, corrected: list[str]) -> None:
    call = CallBlock(call="c", name="n")
    open_turn = turn(blocks=[call, *(TextBlock(parts=[part]) for part in blocks)])
    open_turn.correct_text(text)
    assert open_turn.blocks[0] is call
    assert ["".join(block.parts) for block in open_turn.blocks if isinstance(block, TextBlock)] == corrected
    assert open_turn.text() == text
