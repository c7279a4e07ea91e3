"""UUIDs that are computed from a name (RFC 9562, section 5.5), as text.

`uuid.uuid5` returns the same ones in three times the time, because it makes an object of each.
"""

from __future__ import annotations

from hashlib import sha1
from uuid import UUID

VERSION, VERSION_BITS = 5 << 76, 0xF << 76
VARIANT, VARIANT_BITS = 0b10 << 62, 0b11 << 62
KEPT_BITS = (1 << 128) - 1 ^ VERSION_BITS ^ VARIANT_BITS


def named_uuid(namespace: UUID, name: str) -> str:
    """Return the text of the UUID of version 5 that belongs to a name in a namespace."""
    digest = sha1(namespace.bytes + name.encode(), usedforsecurity=False).digest()
    digits = f"{int.from_bytes(digest[:16], 'big') & KEPT_BITS | VERSION | VARIANT:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
