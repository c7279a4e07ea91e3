from uuid import NAMESPACE_OID, NAMESPACE_URL, UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.named_uuid import named_uuid


@given(st.uuids(), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_named_uuid_is_that_of_the_standard_library(namespace: UUID, name: str) -> None:
    assert named_uuid(namespace, name) == str(uuid5(namespace, name))


def test_each_namespace_has_ids_of_its_own() -> None:
    assert named_uuid(NAMESPACE_OID, "a") != named_uuid(NAMESPACE_URL, "a")
