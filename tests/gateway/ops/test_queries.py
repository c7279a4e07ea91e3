"""The queries of the ops port: what is read from a request, and what is refused."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from dragoman.gateway.ops.queries import SessionQuery, parse_query


def parsed(query: str) -> SessionQuery:
    return parse_query(make_mocked_request("GET", f"/sessions?{query}"), SessionQuery)


def test_the_parameters_of_a_query_are_read_as_their_types() -> None:
    assert parsed("limit=7&state=idle&sort=-memory") == SessionQuery(limit=7, state="idle", sort="-memory")


def test_a_session_may_be_asked_for_by_its_state_under_the_name_in_its_row() -> None:
    assert parsed("status=running") == parsed("state=running")


@pytest.mark.parametrize("query", ["limit=0", "limit=many", "colour=red", "sort=colour", "route=a&route=b"])
def test_a_refusal_names_what_is_wrong(query: str) -> None:
    with pytest.raises(web.HTTPBadRequest) as caught:
        parsed(query)
    assert query.partition("=")[0] in str(caught.value.text)


def test_a_refusal_of_a_word_names_the_words_that_are_known() -> None:
    with pytest.raises(web.HTTPBadRequest) as caught:
        parsed("state=closed")
    assert caught.value.text == "state 'closed' is not one of idle, running, paused"
