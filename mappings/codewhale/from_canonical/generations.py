"""Conversion of results and requests to the generation of the peer that gets them.

The generations differ in few fields (docs/dialects/codewhale.md, sections 2.2, 10 and 12):

    goal.continuation_count     required since 0.8.61, unknown before
    app/config/get data.value   secrets are masked since 0.9.0
    params.operation_key        required since 0.10.2 where a thread begins, ignored before
    params.allowed_tools        required since 0.10.2 with an input, ignored before
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from dragoman.mappings.codewhale.vocabulary import SEED
from dragoman.mappings.codewhale.wire import frames, requests, results
from dragoman.mappings.codewhale.wire.values import ThreadGoal
from dragoman.mappings.dialect import NewId
from dragoman.mappings.extras import raw, read_raw

SECRET = re.compile(
    r"(?:^|[._-])(?:api[_-]?keys?|authorization|bearer|credentials?|passw(?:or)?ds?|secrets?|tokens?)$", re.IGNORECASE
)
"""Names of settings that servers mask."""

MASK = "***"
SHORT = 16  # characters: a secret up to this length is masked completely


def goal_in(goal: ThreadGoal, generation: str) -> ThreadGoal:
    """Return the goal with `continuation_count`, or without it for the seed generation."""
    if generation == SEED:
        return replace(goal, continuation_count=UNSET)
    return replace(goal, continuation_count=0) if goal.continuation_count is UNSET else goal


def result_in(result: Any, generation: str) -> Any:
    """Return a backend's result in the form of a server of this generation."""
    if not isinstance(result, results.ThreadResponse):
        return result
    goal = goal_in(result.goal, generation) if isinstance(result.goal, ThreadGoal) else result.goal
    events = tuple(
        replace(frame, goal=goal_in(frame.goal, generation)) if isinstance(frame, frames.GoalUpdated) else frame
        for frame in result.events
    )
    return replace(result, goal=goal, events=events, data=_data_in(result.data, generation))


def _data_in(data: Raw, generation: str) -> Raw:
    members = read_raw(data, dict[str, Raw])
    goal = read_raw(members.get("goal"), ThreadGoal) if members is not None else None
    return data if members is None or goal is None else raw(members | {"goal": raw(goal_in(goal, generation))})


def masked(key: str, result: Any) -> Any:
    """Return the result of `app/config/get` for setting `key`, with a secret masked as servers do since 0.9.0."""
    if not isinstance(result, results.AppResponse) or not SECRET.search(key.strip(' "')):
        return result
    members = read_raw(result.data, dict[str, Any]) or {}
    value = members.get("value")
    if not isinstance(value, str) or not value or MASK in value:
        return result
    shown = f"{value[:4]}{MASK}{value[-4:]}" if len(value) > SHORT else "*" * 8
    return replace(result, data=raw(members | {"value": shown}))


def with_required_params(message: requests.RequestBase, new_id: NewId) -> requests.RequestBase:
    """Return a request that a server of 0.10.2 accepts: with an operation key, or with no allowed tools."""
    match message:
        case requests.Start():
            start = message.params if isinstance(message.params, requests.Start.Params) else requests.Start.Params()
            return replace(message, params=_keyed(start, new_id))
        case requests.Resume() | requests.Fork():
            return replace(message, params=_keyed(message.params, new_id))
        case requests.Create():
            metadata = message.params.metadata if isinstance(message.params, requests.Create.Params) else UNSET
            return replace(message, params=requests.Create.Params(metadata=_keyed_metadata(metadata, new_id)))
        case requests.Message() | requests.Prompt() if message.params.allowed_tools is None:
            tool_free: Any = replace(message.params, allowed_tools=[])
            return replace(message, params=tool_free)
    return message


def _keyed(params: Any, new_id: NewId) -> Any:
    return params if params.operation_key is not None else replace(params, operation_key=new_id())


def _keyed_metadata(metadata: Any, new_id: NewId) -> Raw:
    """Return the metadata of `thread/create` with an operation key; servers before 0.10.2 ignore all metadata."""
    members = {} if metadata is UNSET else read_raw(metadata, dict[str, Raw])
    if members is None and bytes(metadata) != b"null":
        return metadata  # type: ignore[no-any-return]  # a client's own mistake: the server refuses it
    return raw({"operation_key": new_id(), **(members or {})})
