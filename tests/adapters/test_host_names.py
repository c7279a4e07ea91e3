"""Names in Host headers, and which of them no foreign web page can choose."""

from __future__ import annotations

import pytest

from dragoman.adapters.host_names import address_of, host_name, is_address, is_loopback


@pytest.mark.parametrize(
    ("header", "name"),
    [("Agents.Example:80", "agents.example"), ("[::1]:8790", "::1"), ("localhost.", "localhost"), ("[::1", "[::1")],
    ids=["a name with a port", "an IPv6 address", "a name with its final dot", "a malformed header"],
)
def test_the_name_of_a_header_has_no_port(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "10.0.0.7", "localhost"])
def test_an_address_is_no_name_that_a_page_can_choose(name: str) -> None:
    assert is_address(name)


@pytest.mark.parametrize("name", ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::1"])
def test_any_other_name_may_be_chosen_by_a_page(name: str) -> None:
    assert not is_address(name)


@pytest.mark.parametrize("name", ["127.0.0.1", "127.0.0.5", "::1", "localhost"])
def test_a_loopback_name_leads_to_this_machine_alone(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize("name", ["", "0.0.0.0", "10.0.0.7", "::", "agents.example", "localhost.evil.example"])
def test_any_other_name_may_lead_to_or_from_another_machine(name: str) -> None:
    assert not is_loopback(name)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("127.0.0.1:5555", "127.0.0.1"),
        ("[::1]:5555", "::"),
        ("[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::"),
        ("[fe80::1%eth0]:80", "fe80::"),
        ("uid=1000 pid=123", "uid=1000"),
        ("stdio pid=5", "stdio"),
        ("a disconnected peer", "a"),
    ],
)
def test_the_address_of_a_peer_is_its_host_network_or_user(peer: str, address: str) -> None:
    assert address_of(peer) == address
