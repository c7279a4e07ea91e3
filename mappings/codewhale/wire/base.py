"""What every struct of the codewhale wire has (docs/dialects/codewhale.md, sections 1 and 2.2).

Members are written in declaration order. An option that is None is left out, as its serializer leaves it out; where
the wire can carry a null, or a peer may say a default or leave it away, the member is UNSET when it is absent.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Wire"]


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base of everything on a codewhale's wire."""
