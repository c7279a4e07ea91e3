"""The order of messages that a pod client may see (docs/dialects/pod.md, sections 3, 6, 7, 8 and 9).

The log lane (`segment_rotated`, `system_item`, `invoke_start`) has no order against the event lane, and alerts, lists
and answers may stand anywhere. A run that had begun before we could see it is known by its remains only: the first
block of such a run, and its model turn, may lack their beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.oracle.base import Record
from tests.oracle.blocks import Blocks

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
