"""Templates of the messages of each dialect, for load.c: of a caller, of a backend, and of what each waits for.

A template may contain `$t` (the token), `$w` (the whole text), `$n` (the number of the session) and `$u` (a new uuid).
`$z` is a zero byte, and `$0` to `$7` are JSON values that a rule took from a message.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

Said = tuple[int, str]
"""A channel and a template. Only ZeroMQ has a channel 1: its calls."""


class Rule(Struct, frozen=True):
    """The meaning of a message that contains all of `marks`. The first rule that matches counts."""

    action: str  # ready, begin, token, whole, end, fail or reply
    marks: str  # separated by "&"
    key: str = ""  # in front of the text of a token, or of the whole answer
    take: str = ""  # "0=KEY 1=KEY": keep the values behind these keys
    reply: tuple[Said, ...] = ()


class Role(Struct, frozen=True, kw_only=True):
    """The messages of a load program as caller or backend: `say` begins a turn; `token` and `finish` answer it."""

    framing: str  # line, ws or zmtp
    rules: tuple[Rule, ...]
    open: tuple[Said, ...] = ()
    say: tuple[Said, ...] = ()
    token: tuple[Said, ...] = ()
    finish: tuple[Said, ...] = ()


def described(name: str, role: Role) -> Iterator[str]:
    """Return the lines of the description that load.c reads; `name` is "c" for the caller and "b" for the backend."""
    yield f"{name}.framing\t{role.framing}"
    for rule in role.rules:
        replies = [f"{channel}\t{text}" for channel, text in rule.reply]
        yield "\t".join([f"{name}.rule", rule.action, rule.marks, rule.key, rule.take, *replies])
    for what in ("open", "say", "token", "finish"):
        for channel, text in getattr(role, what):
            yield f"{name}.{what}\t{channel}\t{text}"


def lines(*texts: str) -> tuple[Said, ...]:
    """Return messages for channel 0."""
    return tuple((0, text) for text in texts)


INPUT = "session #$n"

# -- smooth -----------------------------------------------------------------------------------------------------

SMOOTH_CALLER = Role(
    framing="ws",
    open=lines('{"action":"create_conversation_session","requestId":"$u","agentId":"$u"}'),
    say=lines(f'{{"action":"send_message","requestId":"$u","sessionId":$0,"message":"{INPUT}"}}'),
    rules=(
        Rule("token", '"stream_token"', '"token":'),
        Rule("end", '"eventual_response"', '"responseParts":'),
        Rule("ready", '"sessionId"', take='0="sessionId":'),
        Rule("fail", '"error"'),
    ),
)
SMOOTH_BACKEND = Role(
    framing="ws",
    rules=(
        Rule(
            "begin",
            '"send_message"',
            take='1="requestId":',
            reply=lines(
                '{"type":"immediate_response","requestId":$1,"timestamp":1,"status":202,'
                '"message":"Processing your request...","data":{}}'
            ),
        ),
        Rule(
            "reply",
            '"create_conversation_session"',
            take='0="requestId":',
            reply=lines(
                '{"type":"immediate_response","requestId":$0,"timestamp":1,"status":200,"message":"OK","data":{'
                '"sessionId":"$u","conversationId":"$u","agentId":"$u","agentName":"bench","userParticipantId":"$u",'
                '"agentParticipantId":"$u"}}'
            ),
        ),
    ),
    token=lines(
        '{"type":"stream_token","requestId":$1,"timestamp":1,"token":"$t","data":{"requestId":$1,"token":"$t"}}'
    ),
    finish=lines(
        '{"type":"eventual_response","requestId":$1,"timestamp":1,"status":200,"data":{"requestId":$1,"status":200,'
        '"data":{"messageId":"$u","response":{"responseParts":["$w"]},"needsEscalation":false}}}'
    ),
)

# -- pod --------------------------------------------------------------------------------------------------------

SEGMENTS = f'[{{"kind":"text","content":"{INPUT}"}}]'
POD_CALLER = Role(
    framing="line",
    say=lines(f'{{"method":"run","params":{{"input":{SEGMENTS}}}}}'),
    rules=(
        Rule("token", '"text_delta"', '"text":'),
        Rule("ready", '"snapshot"'),
        Rule("whole", '"text_done"', '"text":'),
        Rule("end", '"status"&"idle"'),
        Rule("fail", '"error"'),
    ),
)
POD_BACKEND = Role(
    framing="line",
    open=lines(
        '{"event":"snapshot","data":{"entries":[],"greeting":{"pod_name":"bench","cwd":"/srv/bench",'
        '"provider":"unknown","model":"none","scope_summary":"","tools":[],"context_window":0,"context_tokens":0},'
        '"status":"idle"}}'
    ),
    rules=(
        Rule(
            "begin",
            '"method"&"run"',
            reply=lines(
                f'{{"event":"user_message","data":{{"segments":{SEGMENTS}}}}}',
                '{"event":"status","data":{"status":"running"}}',
                '{"event":"turn_start","data":{"turn":0}}',
            ),
        ),
    ),
    token=lines('{"event":"text_delta","data":{"text":"$t"}}'),
    finish=lines(
        '{"event":"text_done","data":{"text":"$w"}}',
        '{"event":"usage","data":{"input_tokens":100,"output_tokens":100}}',
        '{"event":"turn_end","data":{"turn":0,"result":"finished"}}',
        '{"event":"run_end","data":{"result":"finished"}}',
        '{"event":"status","data":{"status":"idle"}}',
    ),
)

# -- codewhale --------------------------------------------------------------------------------------------------

CODEWHALE_CALLER = Role(
    framing="line",
    open=lines('{"jsonrpc":"2.0","id":1,"method":"thread/start","params":{}}'),
    say=lines(f'{{"jsonrpc":"2.0","id":2,"method":"thread/message","params":{{"thread_id":$0,"input":"{INPUT}"}}}}'),
    rules=(
        Rule("token", '"response_delta"', '"delta":'),
        Rule("end", '"jsonrpc"&"accepted"'),
        Rule("ready", '"jsonrpc"&"thread_id"', take='0="thread_id":'),
        Rule("fail", '"error"'),
    ),
)
CODEWHALE_BACKEND = Role(
    framing="line",
    rules=(
        Rule(
            "begin",
            '"thread/message"',
            take='1="id": 2="thread_id":',
            reply=lines('{"type":"response_start","response_id":$2}'),
        ),
        Rule(
            "reply",
            '"thread/start"',
            take='0="id":',
            reply=lines(
                '{"jsonrpc":"2.0","id":$0,"result":{"thread_id":"thread-$u","status":"started","thread":{'
                '"id":"thread-$u","preview":"New conversation","ephemeral":true,"model_provider":"unknown",'
                '"created_at":1795367251,"updated_at":1795367251,"status":"idle","cwd":"/srv/bench",'
                '"cli_version":"0.9.10","source":"interactive"},"threads":[],"model":"bench",'
                '"model_provider":"unknown","cwd":"/srv/bench","events":[],'
                '"data":{"history":[],"checkpoint":null,"goal":null}}}'
            ),
        ),
        Rule(
            "reply",
            '"capabilities"',
            take='0="id":',
            reply=lines(
                '{"jsonrpc":"2.0","id":$0,"result":{"transport":"stdio","families":["thread/*","app/*",'
                '"prompt/*"],"methods":["healthz","thread/capabilities","thread/start","thread/resume","thread/list",'
                '"thread/read","thread/message","thread/interrupt","shutdown"]}}'
            ),
        ),
    ),
    token=lines('{"type":"response_delta","response_id":$2,"delta":"$t"}'),
    finish=lines(
        '{"type":"response_end","response_id":$2}',
        '{"jsonrpc":"2.0","id":$1,"result":{"thread_id":$2,"status":"accepted","thread":null,"threads":[],'
        '"events":[],"data":{"turn_id":"$u"}}}',
    ),
)

# -- pando ------------------------------------------------------------------------------------------------------

ROW = (
    '"parent_session_id":{"String":"","Valid":false},"title":"bench","message_count":0,"prompt_tokens":0,'
    '"completion_tokens":0,"cost":0'
)


def published(topic: str, payload: str) -> str:
    """Return an event on the bus: its topic, a zero byte, its envelope."""
    return (
        f'{topic}$z{{"instanceId":"5e550000-0000-4000-8000-00000000b0b0","projectId":"","topic":"{topic}",'
        f'"timestamp":"2026-05-09T21:28:20.123456789Z","payload":{{"session_id":$1{payload}}}}}'
    )


PANDO_CALLER = Role(
    framing="zmtp",
    open=(
        (
            1,
            (
                '{"jsonrpc":"2.0","id":"open","method":"db.write","params":{"meta":{},"method":"CreateSession",'
                f'"params":{{"id":"$u",{ROW}}}}}}}'
            ),
        ),
    ),
    say=(
        (
            1,
            f'{{"jsonrpc":"2.0","id":"say","method":"message.send","params":{{"session_id":$0,"content":"{INPUT}"}}}}',
        ),
    ),
    rules=(
        Rule("token", '"llm.token"', '"token":'),
        Rule("end", '"llm.end"'),
        Rule("ready", '"jsonrpc"&"open"&"result"', take='0="result":{"id":'),
        Rule("fail", '"error"'),
    ),
)
PANDO_BACKEND = Role(
    framing="zmtp",
    rules=(
        Rule(
            "begin",
            '"message.send"',
            take='0="id": 1="session_id":',
            reply=(
                (1, '{"jsonrpc":"2.0","id":$0,"result":{"ok":true}}'),
                (0, published("message.append", f',"message_id":"$u","role":"user","content":"{INPUT}"')),
                (0, published("llm.start", "")),
            ),
        ),
        Rule(
            "reply",
            '"CreateSession"',
            take='0="id": 1="params":{"id":',
            reply=(
                (
                    1,
                    (
                        f'{{"jsonrpc":"2.0","id":$0,"result":{{"id":$1,{ROW},"updated_at":1795367252,'
                        '"created_at":1795367252,"summary_message_id":{"String":"","Valid":false}}}'
                    ),
                ),
            ),
        ),
        Rule(
            "reply",
            '"instance.ping"',
            take='0="id":',
            reply=(
                (
                    1,
                    '{"jsonrpc":"2.0","id":$0,"result":{"status":"ok","instance_id":"5e550000-0000-4000-8000-00000000b0b0","uptime":"3s"}}',
                ),
            ),
        ),
        Rule(
            "reply",
            '"message.list"',
            take='0="id":',
            reply=(
                (
                    1,
                    (
                        '{"jsonrpc":"2.0","id":$0,"result":[{"id":"5e550000-0000-4000-8000-00000000a0a0",'
                        '"role":"assistant","content":"$w","created_at":"2026-05-09T21:28:20.123456789Z"}]}'
                    ),
                ),
            ),
        ),
        Rule(
            "reply",
            '"session.interrupt"',
            take='0="id":',
            reply=((1, '{"jsonrpc":"2.0","id":$0,"result":{"ok":true}}'),),
        ),
        Rule("reply", '"session.list"', take='0="id":', reply=((1, '{"jsonrpc":"2.0","id":$0,"result":[]}'),)),
    ),
    token=lines(published("llm.token", ',"token":"$t"')),
    finish=lines(published("llm.end", ',"tokens_in":0,"tokens_out":0')),
)

CALLERS = {"smooth": SMOOTH_CALLER, "pod": POD_CALLER, "pando": PANDO_CALLER, "codewhale": CODEWHALE_CALLER}
BACKENDS = {"smooth": SMOOTH_BACKEND, "pod": POD_BACKEND, "pando": PANDO_BACKEND, "codewhale": CODEWHALE_BACKEND}
