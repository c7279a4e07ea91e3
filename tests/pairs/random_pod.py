"""A pod as a random backend (docs/dialects/pod.md, sections 5 to 10): any legal run, in any legal order of its two
lanes.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field

from tests.gateway.pod_messages import answer_entry, echo, logged, problem, rotated, run_end, say, snapshot, status
from tests.pairs.random_backend import INTERNAL, REASONING, Frame, Move, PlayedTurn, RandomBackend
from tests.pairs.views import TEXT

SEGMENT = "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d9e"


class Run(Struct):
    """The open parts of a run. `block` is "text", "thinking" or a call's id; `silent` is True until the model's first
    output, `model_failed` once the model told an error.
    """

    played: PlayedTurn
    user: bool
    invoke: Frame | None
    silent: bool = True
    model_failed: bool = False
    model_turn: bool = False
    block: str = ""
    parts: list[str] = field(default_factory=list)
    entries: int = 0

    @property
    def explained_by_error(self) -> bool:
        """True if the end of the finished run is an error for smooth clients (docs/translation.md, rule 3.6)."""
        return self.model_failed and all(kind != TEXT for kind, _ in self.played.seen.parts)


class RandomPod(RandomBackend):
    """A pod whose connections come and go; events while there is none are lost."""

    dialect = "pod"

    def __init__(self) -> None:
        super().__init__()
        self.status = "idle"
        self._run: Run | None = None
        self._inputs: list[str] = []
        self._pauses = False  # the stop is a pause, not a cancel
        self._resume = False
        self._entries: list[Frame] = []
        self._alerts: list[Frame] = []
        self._calls: dict[str, str] = {}  # whole calls without a result: id -> name
        self._turn_count = self._call_count = self._ids = 0

    @property
    def turn(self) -> PlayedTurn | None:
        return None if self._run is None else self._run.played

    # -- the connection --------------------------------------------------------------------------------

    def connected(self) -> None:
        self.out += [*self._alerts, snapshot(*self._entries, status=self.status)]

    def lost(self, *, dies: bool) -> None:
        self._inputs, self.stopping, self._resume = [], False, False
        if self._run is not None:
            self._run.played.whole = False
        if dies:
            self._turn_count, self._call_count = self._turn_count + 1, self._call_count + 1
            self._run, self.status, self._calls, self._alerts = None, "idle", {}, []

    def hears(self, frame: Frame) -> None:
        method, params = frame["method"], frame.get("params") or {}
        running = self.status == "running"
        match method:
            case "run" if running:
                self._say(problem("already_running", "busy"))
            case "run":
                self._inputs.append("".join(s.get("content", "") for s in params["input"]))
            case "cancel" | "pause" if running or self._inputs:  # it is read after the input
                self._pauses = self._pauses if self.stopping else method == "pause"
                self.stopping = True
            case "pause" if self.status == "paused":
                pass
            case "cancel" | "pause":
                self._say(problem("not_running", "nothing runs"))
            case "resume" if self.status == "paused":
                self._resume = True
            case "resume":
                self._say(problem("already_running" if running else "not_paused", "cannot resume"))
            case "compact":
                self._compact()
            case "notify":
                self._notified()
            case _:
                self._look_up(method, params, running)

    def _look_up(self, method: str, params: Frame, running: bool) -> None:
        match method:
            case "list_completions":
                self._say(say("completions", kind=params["kind"], entries=[{"value": "src", "is_dir": True}]))
            case "list_visible_pods" | "inspect_pod" | "attach_or_restore_pod" if running:
                self._say(problem("already_running", "busy"))
            case "list_visible_pods":
                self._say(say("visible_pods", pods=[]))
            case "inspect_pod" | "attach_or_restore_pod":
                self._say(problem("invalid_request", "not visible"))
            case _:
                pass

    def _compact(self) -> None:
        if self.status == "running":
            self._say(problem("already_running", "busy"))
        elif self.status == "paused":
            self._say(problem("invalid_request", "paused"))
        elif self._turn_count % 3 == 2:
            self._say(say("alert", level="warn", source="compactor", message=INTERNAL, timestamp_ms=1))
        else:
            segment = rotated(logged("system", "what was, in short"))
            segment["data"]["entry"]["compacted_from"] = {"segment_id": SEGMENT, "at_turn_index": self._turn_count}
            self._entries = [segment["data"]["entry"]]
            self._say(say("compact_start"), segment, say("compact_done", new_segment_id=SEGMENT))

    # -- moves -----------------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        run = self._run
        moves: list[Move]
        if run is None:
            moves = [self._alert, self._memory, self._notified, self._other_client]
            if self._inputs:
                moves = [self._accept] * 6 + [self._bad_workflow] + moves
            if self._resume:
                moves = [self._resumed] * 4
            return moves
        if not run.model_turn:
            moves = [self._turn_start] * 4 + [self._result] * 8 * bool(self._calls)
            moves += [self._note]
            moves += [self._finish] * 4 * self._may_finish + [self._limit] * self._may_finish
        elif not run.block:
            moves = [self._text] * 8 + [self._think] * 4 + [self._call] * 4 + [self._turn_end] * 6
            moves += [self._retry, self._mid_error] + [self._continue] * (not self._calls)  # it drops open calls
        elif run.block == "text":
            moves = [self._text] * 12 + [self._text_done] * 8
        elif run.block == "thinking":
            moves = [self._think] * 8 + [self._think_done] * 8
        else:
            moves = [self._fragment] * 8 + [self._call_done] * 8
        moves += [self._alert, self._memory, self._fail] + [self._stopped] * 8 * self.stopping
        return moves + [self._invoke] * 2 * (run.invoke is not None)

    @property
    def _may_finish(self) -> bool:
        """True if the run may end as finished: the model has said something, and no call waits for its result."""
        run = self._open()
        return not run.silent and not self._calls and not run.explained_by_error

    def finish(self) -> None:
        if self._run is not None:
            if self.stopping:
                self._stopped()
            else:
                self._fail()
        for _ in self._inputs:
            self._say(problem("invalid_request", "not now"))
        self._inputs, self.stopping = [], False

    def _say(self, *frames: Frame) -> None:
        self.out += frames

    def _log(self, kind: str, **fields: Any) -> None:
        self._entries.append({"kind": kind, "ts": 1, **fields})

    def _next_id(self) -> str:
        self._ids += 1
        return f"call_{self._ids}"

    # -- between runs ----------------------------------------------------------------------------------

    def _alert(self) -> None:
        alert = say("alert", level="warn", source="pod", message=INTERNAL, timestamp_ms=len(self._alerts) + 1)
        self._alerts.append(alert)
        self._say(alert)

    def _memory(self) -> None:
        self._say(
            say(
                "memory_worker",
                worker="extract",
                status="done",
                run_id="r",
                trigger="idle",
                reason="",
                message=INTERNAL,
                timestamp_ms=1,
            )
        )

    def _begin(self, kind: str, text: str) -> None:
        played = PlayedTurn(number=len(self.turns), whole=not self.stopping)  # it may be over for clients already
        self.turns.append(played)
        if not self._entries:
            self._entries.append(rotated()["data"]["entry"])
            self._say(rotated())
        invoke = None if kind == "resume" else say("invoke_start", kind=kind)
        self._run = Run(played=played, user=kind == "user_send", invoke=invoke, entries=len(self._entries))
        if invoke is not None:
            self._log("invoke", trigger=kind)
        if kind == "user_send":
            self._calls = {}  # a run from Paused closes the interrupted turn with results that nobody is told
            self._log("user_input", segments=[{"kind": "text", "content": text}])
            self._say(echo(text))
        self.status = "running"
        self._say(status("running"), *(problem("already_running", "busy") for _ in self._inputs))
        self._inputs = []

    def _accept(self) -> None:
        self._begin("user_send", self._inputs.pop(0))

    def _bad_workflow(self) -> None:
        self._say(echo(self._inputs.pop(0)), status("running"), problem("invalid_request", "no such workflow"))
        self._say(status("idle"))
        self.status, self._calls, self.stopping = "idle", {}, False

    def _notified(self) -> None:
        if self.status == "idle" and not self._inputs:  # else it is queued, and nobody sees it
            self._begin("notify", "")

    def _other_client(self) -> None:
        if not self._inputs:
            self._begin("user_send", "from elsewhere")

    def _resumed(self) -> None:
        self._resume = False
        self._begin("resume", "")
        if self._run is not None:
            self._run.silent = False

    # -- in a run --------------------------------------------------------------------------------------

    def _invoke(self) -> None:
        if self._run is not None and self._run.invoke is not None:
            self._say(self._run.invoke)
            self._run.invoke = None

    def _note(self) -> None:
        """Commit a note that was queued."""
        item = {"kind": "notification", "message": INTERNAL, "body": INTERNAL}
        self._log("system_item", item=item)
        self._say(say("system_item", item=item))

    def _turn_start(self) -> None:
        run = self._open()
        run.model_turn = True
        self._say(say("turn_start", turn=self._turn_count), say("llm_call_start", llm_call=self._call_count))

    def _turn_end(self) -> None:
        self._open().model_turn = False
        self._say(say("usage", input_tokens=10, output_tokens=None), say("llm_call_end", llm_call=self._call_count))
        self._say(say("turn_end", turn=self._turn_count, result="finished"))
        self._turn_count, self._call_count = self._turn_count + 1, self._call_count + 1

    def _retry(self) -> None:
        self._say(
            say(
                "llm_retry",
                llm_call=self._call_count,
                failed_attempt=1,
                max_attempts=4,
                wait_ms=1,
                elapsed_ms=1,
                error=INTERNAL,
            )
        )

    def _continue(self) -> None:
        self._say(say("llm_call_end", llm_call=self._call_count))
        self._say(say("llm_continuation", llm_call=self._call_count, attempt=1, max_attempts=3, reason=INTERNAL))
        self._call_count += 1
        self._say(say("llm_call_start", llm_call=self._call_count))

    def _mid_error(self) -> None:
        self._open().model_failed = True
        self._say(problem("provider_error", "overloaded for a moment"))

    def _open(self) -> Run:
        assert self._run is not None
        return self._run

    def _block(self, kind: str) -> Run:
        run = self._open()
        if not run.block:
            run.block, run.parts, run.silent = kind, [], False
        return run

    def _text(self) -> None:
        run = self._block("text")
        words = self._words.next(run.played.number)
        run.parts.append(words)
        run.played.seen.add_text(words)
        self._say(say("text_delta", text=words))

    def _text_done(self) -> None:
        run = self._open()
        text = "".join(run.parts)
        run.block = ""
        self._entries.append(answer_entry(text))
        self._say(say("text_done", text=text))

    def _think(self) -> None:
        run = self._open()
        if not run.block:
            self._block("thinking")
            self._say(say("thinking_start"))
            return
        words = self._words.next(run.played.number, REASONING)
        run.parts.append(words)
        run.played.seen.add_thought(words)
        self._say(say("thinking_delta", text=words))

    def _think_done(self) -> None:
        run = self._open()
        run.block = ""
        self._log("assistant_item", item={"kind": "reasoning", "text": "".join(run.parts)})
        self._say(say("thinking_done", text="".join(run.parts)))

    def _call(self) -> None:
        call = self._next_id()
        self._block(call).parts = [f"tool_{self._ids % 3}", '{"a": [']
        self._say(say("tool_call_start", id=call, name=f"tool_{self._ids % 3}"))
        self._say(say("tool_call_args_delta", id=call, json='{"a": ['))

    def _fragment(self) -> None:
        run = self._open()
        comma = ", " if len(run.parts) > 2 else ""
        run.parts.append(f"{comma}{json.dumps(self._words.next(run.played.number))}")
        self._say(say("tool_call_args_delta", id=run.block, json=run.parts[-1]))

    def _call_done(self) -> None:
        run = self._open()
        name, *fragments = run.parts
        self._say(say("tool_call_args_delta", id=run.block, json="]}"))
        whole = json.dumps(json.loads("".join(fragments) + "]}"), separators=(",", ":"))
        run.played.seen.add_call(name, whole)
        self._calls[run.block] = name
        item = {"kind": "tool_call", "call_id": run.block, "name": name, "arguments": whole}
        self._log("assistant_item", item=item)
        self._say(say("tool_call_done", id=run.block, name=name, arguments=whole))
        run.block = ""

    def _result(self) -> None:
        run = self._open()
        call, name = next(iter(self._calls.items()))
        del self._calls[call]
        words = self._words.next(run.played.number)
        run.played.seen.add_result(name, words)
        self._log("tool_result", item={"kind": "tool_result", "call_id": call, "summary": "done", "content": words})
        self._say(say("tool_result", id=call, summary="done", output=words, is_error=False))

    # -- its end ---------------------------------------------------------------------------------------

    def _end(self, end: str, state: str, *frames: Frame) -> None:
        run = self._open()
        self._invoke()
        if run.model_turn:
            self._turn_count, self._call_count = self._turn_count + 1, self._call_count + 1
        run.played.seen.end = end
        self._run, self.stopping, self.status = None, False, state
        if state != "paused":
            self._calls = {}
        self._say(*frames, status(state))

    def _finish(self) -> None:
        self._log("run_completed", interrupted=False, result="finished")
        self._end("completed", "idle", run_end("finished"))

    def _limit(self) -> None:
        self._log("run_completed", interrupted=False, result="limit_reached")
        self._end("completed", "idle", run_end("limit_reached"))

    def _fail(self) -> None:
        self._log("run_errored", interrupted=False, message="broken")
        self._end("failed", "idle", problem("provider_error", "broken"))

    def _stopped(self) -> None:
        run = self._open()
        if run.silent and run.user:
            del self._entries[run.entries :]
            self._end("cancelled", "idle", run_end("rolled_back"))
        elif self._pauses:
            self._log("run_completed", interrupted=True, result="paused")
            self._end("cancelled", "paused", run_end("paused"))
        else:
            self._log("run_errored", interrupted=True, message="Cancelled")
            self._end("cancelled", "idle", problem("internal", "Cancelled"))
