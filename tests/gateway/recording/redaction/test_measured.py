"""The measured corpus: kinds of secrets in all places, and innocent texts."""

from __future__ import annotations

import pytest

from tests.docs import RECORDING, with_findings
from tests.gateway.recording.redaction.measured import FORMS, INNOCENT, PLACES, false_findings, found, keys


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_of_key_is_found_in_this_place(place: str) -> None:
    missed = {kind for kind, secret in keys() if not found(PLACES[place](secret), secret)}
    assert missed == set()


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_without_a_prefix_is_found_in_this_form(form: str) -> None:
    assert found(*FORMS[form])


@pytest.mark.parametrize("kind", INNOCENT)
def test_detectors_find_no_secret_in_innocent_texts(kind: str) -> None:
    assert false_findings()[kind] == []


def test_the_document_shows_the_measured_table() -> None:
    text = RECORDING.read_text("utf-8")
    assert with_findings(text) == text, "run `make docs`"
