"""The order of messages that a pod client may see (docs/dialects/pod.md, sections 3, 6, 7, 8 and 9).

The log lane (`segment_rotated`, `system_item`, `invoke_start`) has no order against the event lane, and alerts, lists
and answers may stand anywhere. A run that had begun before we could see it is known by its remains only: the first
block of such a run, and its model turn, may lack their beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from tests.data_files import value_of
from tests.oracle.base import Record

Hold = Callable[[bool, str], None]

GAPS = ("a finished block contradicts what was streamed of it", "the beginning of a block was not received")
"""Alerts before a done block that is more or other than its deltas (docs/translation.md, rule 4.2)."""
Data = dict[str, Any]

COUNTERS = {"turn_start": "turn", "turn_end": "turn", "llm_call_start": "llm_call", "llm_call_end": "llm_call"}
CONTENT = {
    "turn_start",
    "turn_end",
    "llm_call_start",
    "llm_call_end",
    "llm_retry",
    "llm_continuation",
    "usage",
    "run_end",
    "text_delta",
    "text_done",
    "thinking_start",
    "thinking_delta",
    "thinking_done",
    "tool_call_start",
    "tool_call_args_delta",
    "tool_call_done",
    "tool_result",
}
"""Events that occur only within a run."""

SPOKEN = {name for name in CONTENT if name.startswith(("text_", "thinking_", "tool_call_"))}
"""Blocks of the model's: they stand in a model turn."""

LEGAL = {("idle", "running"), ("paused", "running"), ("running", "idle"), ("running", "paused")}


class Call(Struct):
    """A call without a result; `cut` if its beginning was not seen, `old` if it is of an earlier run."""

    name: str
    cut: bool = False
    old: bool = False
    fragments: list[str] = field(default_factory=list)
    done: bool = False


class Blocks:
    """The blocks of the runs on one connection; `hold` fails when its first argument is false.

    A done block says its deltas again, in one piece. A call goes start, fragments, done, result, by its id; its result
    may come in a later run, or belong to a call that only the history tells.
    """

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._kind = ""  # of the open block: "text", "thinking" or none
        self._parts: list[str] = []
        self._whole = True  # the open block was seen from its beginning
        self._told_gap = False  # an alert said that something of the open block is lost
        self._calls: dict[str, Call] = {}

    def begin(self, *, seen: bool) -> None:
        """Begin a run, or join one that began earlier."""
        self._whole = seen

    def cut(self) -> None:
        """End a run: its open blocks are not closed any more, and its incomplete calls get no result."""
        self._kind, self._parts, self._whole = "", [], True
        self._calls = {key: Call(name=call.name, done=True, old=True) for key, call in self._calls.items() if call.done}

    def closed(self) -> None:
        """End a completed run."""
        self._hold(not self._kind, f"a run ends well with its {self._kind} block closed")
        half = [key for key, call in self._calls.items() if not call.done]
        self._hold(not half, f"a run ends well with whole calls: {half}")

    def know(self, entries: list[Any]) -> None:
        """Take the history: its calls without a result may get one."""
        for entry in entries:
            for item in _items(entry):
                if item["kind"] == "tool_call":
                    self._calls[item["call_id"]] = Call(name=item["name"], done=True, old=True)
                else:
                    self._calls.pop(item["call_id"], None)

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Take an event; events outside of blocks are ignored."""
        match name:
            case "thinking_start":
                self._none_open(name)
                self._kind = "thinking"
            case "alert":
                self._told_gap = self._told_gap or data["message"] in GAPS
            case "text_delta" | "thinking_delta":
                self._delta(name.partition("_")[0], data["text"])
            case "text_done" | "thinking_done":
                self._done(name.partition("_")[0], data["text"])
            case "tool_call_start":
                self._none_open(name)
                known = self._calls.get(data["id"])
                self._hold(known is None or known.old, "a call starts once in a run")
                self._calls[data["id"]] = Call(name=data["name"])
            case "tool_call_args_delta":
                self._open_call(name, data["id"]).fragments.append(data["json"])
            case "tool_call_done":
                self._call_done(data)
            case "tool_result":
                call = self._calls.pop(data["id"], None)
                self._hold(call is not None and call.done, "a result answers a whole call, once")
            case _:
                pass

    def _none_open(self, name: str) -> None:
        self._hold(not self._kind, f"{name} while a {self._kind} block is open")

    def _delta(self, kind: str, text: str) -> None:
        if not self._kind and (kind == "text" or not self._whole):
            self._kind = kind
        self._hold(self._kind == kind, f"{kind}_delta belongs to an open {kind} block")
        self._parts.append(text)

    def _done(self, kind: str, text: str) -> None:
        sent = "".join(self._parts)
        if self._told_gap:
            self._told_gap = False  # the done text is the authority then (docs/translation.md, rule 4.2)
        elif self._whole:
            self._hold(self._kind == kind or (kind, text) == ("text", ""), f"{kind}_done closes a {kind} block")
            empty = kind == "thinking" and not text
            self._hold(text == sent or empty, f"{kind}_done says what its deltas said")
        else:
            self._hold(self._kind in ("", kind), f"{kind}_done closes a {kind} block")
            self._hold(text.endswith(sent), f"{kind}_done ends as its deltas did")
        self._kind, self._parts, self._whole = "", [], True

    def _open_call(self, name: str, key: str) -> Call:
        call = self._calls.get(key)
        if call is None and not self._whole:  # it was begun before we came
            call = self._calls[key] = Call(name="", cut=True)
            self._whole = True
        self._hold(call is not None and not call.done, f"{name} belongs to a call that is being made")
        assert call is not None
        return call

    def _call_done(self, data: dict[str, Any]) -> None:
        call = self._open_call("tool_call_done", data["id"])
        self._hold(call.cut or call.name == data["name"], "a call keeps its name")
        # as values, because arguments are written anew; fragments that break off have none
        said = None if call.cut else value_of("".join(call.fragments))
        self._hold(said in (None, value_of(data["arguments"])), "tool_call_done says what its fragments said")
        call.done = True


def _items(entry: Any) -> Iterator[dict[str, Any]]:
    """Return the calls and results in an entry of the log, in order."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    logged = entry["history"] if kind == "segment_start" else [entry["item"]] if kind in _HOLDING else []
    yield from (item for item in logged if item["kind"] in ("tool_call", "tool_result"))


_HOLDING = ("assistant_item", "tool_result")


class Run(Struct):
    """A run: `told` once any event of it came, `seen` if its beginning was seen."""

    seen: bool = True
    model_turns: int = 0
    told: bool = False
    errors: int = 0
    result: str = ""


class PodOracle:
    """The observer of one connection of a pod client. `lost_pod` is True if its server is a gateway that lost its
    pod for a while: the start of what ends may be missing.
    """

    def __init__(self) -> None:
        self.lost_pod = False
        self._record = Record()
        self._status = ""  # "" before the snapshot
        self._repeats = False  # the status may still repeat that of the snapshot, or of the history told anew
        self._user = False  # a user_message waits for its run
        self._rotated = False  # the last event was a rotation
        self._run: Run | None = None
        self._last: dict[str, int] = {}
        self._whole: dict[str, int] = {}  # the last of each counter whose end was told
        self._open: dict[str, int] = {}
        self._asked = 0  # list_completions without an answer
        self._over = False
        self._blocks = Blocks(self._record.hold)
        self._rules: dict[str, Callable[[Data], None]] = {
            "snapshot": self._snapshot,
            "segment_rotated": self._rotation,
            "user_message": self._user_message,
            "status": self._state,
            "run_end": self._run_end,
            "error": self._error,
            "completions": self._completions,
            "shutdown": self._shutdown,
            "turn_start": self._turn_start,
        }

    @property
    def open(self) -> list[str]:
        """Return the runs that have begun or must begin and have not ended."""
        return [name for name, there in (("a run", self._run), ("a run to come", self._user)) if there]

    def said(self, message: dict[str, Any]) -> None:
        """Take a method that the client sent."""
        self._record.add(">", message)
        if message.get("method") == "list_completions":
            self._asked += 1

    def got(self, frame: dict[str, Any]) -> None:
        """Take an event that the client received."""
        self._record.add("<", frame)
        name, data = frame["event"], frame.get("data") or {}
        self._record.hold(not self._over, "nothing comes after shutdown")
        if name == "error" and not self._status:
            self._over = True  # no pod does it: a gateway that has nothing to show says so and closes
            return
        self._record.hold(
            bool(self._status) or name in ("alert", "snapshot"), "alerts, then the snapshot, then all else"
        )
        if name in CONTENT:
            self._content(name)
        if name in COUNTERS:
            self._count(name, COUNTERS[name], data[COUNTERS[name]])
        self._blocks.add(name, data)
        rule = self._rules.get(name)
        if rule is not None:
            rule(data)
        self._rotated = name == "segment_rotated"

    # -- the connection --------------------------------------------------------------------------------

    def _snapshot(self, data: Data) -> None:
        self._record.hold(not self._status, "one snapshot")
        self._status, self._repeats = data.get("status", "idle"), True
        self._blocks.know(data["entries"])
        if self._status == "running":
            self._begin(seen=False)

    def _rotation(self, data: Data) -> None:
        self._repeats = True
        self._blocks.know([data["entry"]])
        if self._run is None:
            self._last.clear()  # a history told anew outside of a run may be that of a pod that was started anew

    def _completions(self, _data: Data) -> None:
        self._record.hold(self._asked > 0, "completions go to the connection that asked")
        self._asked -= 1

    def _shutdown(self, _data: Data) -> None:
        self._record.hold(self._run is None, "a run ends before shutdown")
        self._over = True

    # -- runs ------------------------------------------------------------------------------------------

    def _user_message(self, _data: Data) -> None:
        run = self._run
        self._record.hold(
            not self._user and (run is None or not run.told), "a user_message stands before its run's content"
        )
        self._user = run is None
        if run is not None:
            run.told = True

    def _state(self, data: Data) -> None:
        new, run = data["status"], self._run
        repeated, self._repeats = self._repeats and new == self._status, False
        if repeated and not self._user:
            if run is not None and self._rotated:  # a server that lost its pod for a while: something may be missing
                run.seen = False
                self._blocks.begin(seen=False)
            return
        self._record.hold((self._status, new) in LEGAL or self._rotated, f"no status goes from {self._status} to {new}")
        self._status = new
        if run is None and new != "running":
            return  # what the history told anew has come to
        if run is None:
            self._begin(seen=not self._rotated or self._user)
            return
        ended = run.result or ("error" if run.errors else "")
        self._record.hold(bool(ended), "a run ends by run_end or by an error")
        self._record.hold((run.result == "paused") == (new == "paused"), "run_end and status agree on a pause")
        self._run = None
        self._blocks.cut()
        self._open.clear()

    def _begin(self, *, seen: bool) -> None:
        self._run = Run(seen=seen, told=self._user)
        self._user = False
        self._blocks.begin(seen=seen)

    def _content(self, name: str) -> None:
        run = self._run
        self._record.hold(run is not None, f"{name} stands in a run")
        assert run is not None
        self._record.hold(not run.result, f"after run_end comes status, not {name}")
        spoken = name in SPOKEN and run.seen
        self._record.hold(not spoken or run.model_turns > 0, f"turn_start comes before {name}")
        run.told = True

    def _turn_start(self, _data: Data) -> None:
        if self._run is not None:
            self._run.model_turns += 1

    def _run_end(self, data: Data) -> None:
        if self._run is not None:
            self._run.result = data["result"]
        if data["result"] in ("finished", "limit_reached"):
            self._blocks.closed()
        if data["result"] == "finished":
            self._record.hold("turn" not in self._open, "turn_end comes before run_end{finished}")

    def _error(self, _data: Data) -> None:
        if self._run is not None:
            self._run.errors += 1

    def _count(self, name: str, counter: str, index: int) -> None:
        if name.endswith("_start"):
            # a real pod gives the number of what was cut short to the next one
            again = index == self._last.get(counter) != self._whole.get(counter)
            self._record.hold(again or index > self._last.get(counter, -1), f"{name}: the counter grows")
            self._last[counter] = self._open[counter] = index
            return
        self._whole[counter] = index
        if self.lost_pod:
            self._open.pop(counter, None)
            return
        known = counter in self._open
        begun_before = self._run is not None and not self._run.seen
        self._record.hold(known or begun_before, f"{name} ends what began")
        self._record.hold(not known or self._open.pop(counter) == index, f"{name} has the index of what began")
