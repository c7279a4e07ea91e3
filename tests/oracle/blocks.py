"""The blocks of a pod's run: text, reasoning and tool calls (docs/dialects/pod.md, sections 6, 8 and 9).

A done block says its deltas again, in one piece. A call goes start, fragments, done, result, by its id; its result may
come in a later run, or belong to a call that only the history tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from tests.data_files import value_of

Hold = Callable[[bool, str], None]

GAPS = ("a finished block contradicts what was streamed of it", "the beginning of a block was not received")
"""Alerts before a done block that is more or other than its deltas (docs/translation.md, rule 4.2)."""


class Call(Struct):
    """A call without a result; `cut` if its beginning was not seen, `old` if it is of an earlier run."""

    name: str
    cut: bool = False
    old: bool = False
    fragments: list[str] = field(default_factory=list)
    done: bool = False


class Blocks:
    """The blocks of one connection; `hold` fails when its first argument is false."""

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
