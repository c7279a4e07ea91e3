"""Add the params that servers require since 0.10.2 and older ones ignore (docs/dialects/codewhale.md, section 12)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.dialect import NewId
from dragoman.mappings.extras import raw, read_raw


def with_required_params(message: requests.RequestBase, new_id: NewId) -> requests.RequestBase:
    """Return a request that a server of 0.10.2 accepts: with an operation key, or with no allowed tools."""
    match message:
        case requests.Start():
            start = message.params if isinstance(message.params, requests.StartParams) else requests.StartParams()
            return replace(message, params=_keyed(start, new_id))
        case requests.Resume() | requests.Fork():
            return replace(message, params=_keyed(message.params, new_id))
        case requests.Create():
            metadata = message.params.metadata if isinstance(message.params, requests.CreateParams) else UNSET
            return replace(message, params=requests.CreateParams(metadata=_keyed_metadata(metadata, new_id)))
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
