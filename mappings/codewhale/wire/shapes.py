"""Untyped JSON in the shape of a struct: how a lax reader of codewhale reads what the strict decoder refused.

Members that are not documented are taken out and named; EventFrames of an unknown name too, for one of them must not
cost the answer that it stands in. A unit variant may also come as `{"ready": null}`
(docs/dialects/codewhale.md, section 7).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import inspect


def fitted(value: object, shape: inspect.Type, path: str, dropped: list[str]) -> object:
    """`value` without what `shape` does not document; the paths of that go to `dropped`."""
    match value:
        case dict():
            return _members(value, shape, path, dropped)
        case list():
            item = next(
                (t.item_type for t in _alternatives(shape) if isinstance(t, inspect.ListType | inspect.VarTupleType)),
                None,
            )
            if item is None:
                return value
            known = [member for member in value if not _strange(member, item, path, dropped)]
            return [fitted(member, item, f"{path}[]", dropped) for member in known]
    return value


def _members(value: dict[str, object], shape: inspect.Type, path: str, dropped: list[str]) -> object:
    structs = [t for t in _alternatives(shape) if isinstance(t, inspect.StructType)]
    units = [str(v) for t in _alternatives(shape) if isinstance(t, inspect.LiteralType) for v in t.values]
    if len(value) == 1:
        (name,) = value
        if name in units and value[name] is None:
            return name
    tagged = [s for s in structs if s.tag_field is not None]
    struct = next((s for s in tagged if value.get(str(s.tag_field)) == s.tag), None) if tagged else None
    if struct is None:
        struct = structs[0] if structs and not tagged else None
    if struct is None:
        return value
    fields = {field.encode_name: field.type for field in struct.fields}
    members: dict[str, object] = {}
    for name, member in value.items():
        if name in fields:
            members[name] = fitted(member, fields[name], f"{path}.{name}", dropped)
        elif name == struct.tag_field:
            members[name] = member
        else:
            dropped.append(f"{path}.{name}")
    return members


def _strange(value: object, shape: inspect.Type, path: str, dropped: list[str]) -> bool:
    """Whether this is an EventFrame of a name that is not known."""
    tags = {s.tag for s in _alternatives(shape) if isinstance(s, inspect.StructType) and s.tag_field == "event"}
    tag = value.get("event") if isinstance(value, dict) else None
    strange = bool(tags) and isinstance(tag, str) and tag not in tags
    if strange:
        dropped.append(f"{path}[].{tag}")
    return strange


def _alternatives(shape: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(shape, inspect.UnionType):
        for member in shape.types:
            yield from _alternatives(member)
    else:
        yield shape


def depth(value: object) -> int:
    """How deep `value` nests, level by level: a parser's own recursion must not be what finds out."""
    levels = 0
    level = [value]
    while level := [v for v in level if isinstance(v, dict | list)]:
        levels += 1
        level = [m for v in level for m in (v.values() if isinstance(v, dict) else v)]
    return levels
