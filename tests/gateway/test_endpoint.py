"""Endpoints: which are read, the text of each refusal, and that each can be written again."""

from __future__ import annotations

import pytest

from dragoman.gateway import registry
from dragoman.gateway.endpoint import EXAMPLES, Endpoint, parse, split_url, tcp_places
from dragoman.mappings.errors import ConfigError

GOOD = {
    "smooth+ws://127.0.0.1:8787/ws": Endpoint(dialect="smooth", transport="ws", address="//127.0.0.1:8787/ws"),
    "pod+unix:/run/x/sock": Endpoint(dialect="pod", transport="unix", address="/run/x/sock"),
    "pod+unix:rel/sock": Endpoint(dialect="pod", transport="unix", address="rel/sock"),
    "pod@seed+unix:/s": Endpoint(dialect="pod", generation="seed", transport="unix", address="/s"),
    "smooth@1.57+ws://h:1": Endpoint(dialect="smooth", generation="1.57", transport="ws", address="//h:1"),
    "pod+unix:/a b/ü+x:y@z": Endpoint(dialect="pod", transport="unix", address="/a b/ü+x:y@z"),
    "smooth+ws://h:1/?origin=http://a&origin=http://b": Endpoint(
        dialect="smooth", transport="ws", address="//h:1/", options=(("origin", "http://a"), ("origin", "http://b"))
    ),
    "pod+unix:/s?session=latest&x=y": Endpoint(
        dialect="pod", transport="unix", address="/s", options=(("session", "latest"), ("x", "y"))
    ),
    "codewhale+stdio:": Endpoint(dialect="codewhale", transport="stdio", address=""),
    "codewhale+stdio:x --url a?b=c -- y": Endpoint(
        dialect="codewhale", transport="stdio", address="x --url a?b=c -- y"
    ),
    "codewhale@0.8.59+stdio:x -- ?cwd=/a b&model=m": Endpoint(
        dialect="codewhale",
        generation="0.8.59",
        transport="stdio",
        address="x",
        options=(("cwd", "/a b"), ("model", "m")),
    ),
}


@pytest.mark.parametrize(("text", "endpoint"), GOOD.items())
def test_an_endpoint_is_read(text: str, endpoint: Endpoint) -> None:
    assert parse(text) == endpoint


@pytest.mark.parametrize("text", GOOD)
def test_a_parsed_endpoint_is_written_back_unchanged(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "smooth", "pod:/run/x", "ws://127.0.0.1:8787", "+unix:/x", "pod+:/x", "pod+unix", "Pod+unix:/x"),
        *("pod@+unix:/x", "pod@a b+unix:/x", "pod+unix:", "pod+unix:?session=new", "/run/x/sock", "9pod+unix:/x"),
    ],
)
def test_an_invalid_endpoint_is_refused_with_a_valid_example(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert repr(text) in str(caught.value)
    assert EXAMPLES in str(caught.value)


@pytest.mark.parametrize(
    "text", ["pod+unix:/x?session", "pod+unix:/x?a=1&b", "pod+unix:/x?&", "codewhale+stdio:x -- ?y"]
)
def test_options_without_a_value_are_refused_with_the_form_of_options(text: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE&KEY=VALUE"):
        parse(text)


@pytest.mark.parametrize("text", ["smooth+wss://h:1/?cert=c&client_ca=", "codewhale+stdio:x -- ?client_ca=&cwd=/a"])
def test_an_option_with_an_empty_value_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match="write a value for `client_ca`, or leave it out"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("pod+unix:~/s", "pod+unix:/home/ann/s"),
        ("pod+dir:~", "pod+dir:/home/ann"),
        ("replay+file:~/r.jsonl", "replay+file:/home/ann/r.jsonl"),
        ("smooth+wss://h/ws?ca=~/ca&token=file:~/t", "smooth+wss://h/ws?ca=/home/ann/ca&token=file:/home/ann/t"),
        ("codewhale+stdio:~/x -- ?cwd=~/src", "codewhale+stdio:~/x -- ?cwd=/home/ann/src"),
        ("smooth+wss://h/ws?token=~/t&user=~", "smooth+wss://h/ws?token=~/t&user=~"),
        ("pod+unix:/run/~/s", "pod+unix:/run/~/s"),
        ("pod+unix:~nobody-at-all/s", "pod+unix:~nobody-at-all/s"),
        ("pod+name:~", "pod+name:~"),
    ],
)
def test_the_folder_of_a_user_is_written_as_in_a_shell(
    text: str, expanded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert str(parse(text)) == expanded


def test_the_examples_in_the_errors_are_valid_endpoints() -> None:
    for example in EXAMPLES.split(" or "):
        assert str(parse(example)) == example


def test_a_repeated_option_has_all_its_values_and_the_last_as_its_single_one() -> None:
    endpoint = parse("smooth+ws://h:1/?origin=a&origin=b")
    assert (endpoint.all("origin"), endpoint.option("origin")) == (("a", "b"), "b")


def test_a_missing_option_has_its_default() -> None:
    endpoint = parse("pod+unix:/x")
    assert (endpoint.option("session", "new"), endpoint.all("session")) == ("new", ())


def test_the_masked_form_shows_neither_a_token_nor_the_arguments_of_a_command() -> None:
    assert parse("smooth+ws://h:1/ws?token=t0p").masked == "smooth+ws://h:1/ws?token=***"
    assert parse("codewhale+stdio:whale --key t0p -- ?cwd=/a").masked == "codewhale+stdio:whale ... -- ?cwd=/a"
    assert parse("codewhale+stdio:whale\n-p\tt0p").masked == "codewhale+stdio:whale ..."
    assert parse("codewhale+stdio:").masked == "codewhale+stdio:"


@pytest.mark.parametrize(
    "text",
    [
        *("smoth+ws//h:1?token=s3cret", "pod+unix:?token=s3cret", "smooth+ws://h:1?token=s3cret&=", "x?TOKEN=s3cret"),
        *("x?\N{LATIN SMALL LETTER LONG S}ecret=s3cret", "x?api\N{KELVIN SIGN}ey=s3cret"),
        *("smooth+ws://me:s3cret@h:99999/", "smooth+ws://h:99999/?tokne=s3cret", "smooth+ws://h:x/?api_key=s3cret"),
        *("codewhale+stido:whale --api-key s3cret", "codewhale+stdio:whale --key 's3cret"),
    ],
)
def test_no_error_about_an_endpoint_contains_its_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.check_upstream(parse(text))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("value", ["a b", "a&b=c", "100%", "ü", "a+b", "a#b", "?", "%41"])
def test_an_option_with_any_text_survives_writing_and_reading(value: str) -> None:
    endpoint = Endpoint(dialect="pod", transport="unix", address="/x", options=(("k", value), ("l", "m")))
    assert parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("smooth+ws://127.0.0.1:8787/ws", ("127.0.0.1", 8787, "/ws")),
        ("smooth+ws://localhost:0", ("localhost", 0, "/")),
        ("smooth+ws://[::1]:81/a/b", ("::1", 81, "/a/b")),
        ("smooth+ws://agents.example/ws", ("agents.example", 80, "/ws")),
        ("smooth+wss://agents.example", ("agents.example", 443, "/")),
    ],
)
def test_a_url_is_split_into_host_port_and_path(text: str, parts: tuple[str, int, str]) -> None:
    assert split_url(parse(text)) == parts


@pytest.mark.parametrize("address", ["//:80/ws", "/ws", "//h:x/", "//h:99999/", "//[::1/", "//h:1/ws#x"])
def test_a_url_without_host_or_with_an_invalid_port_or_a_fragment_is_refused_and_quoted(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        split_url(Endpoint(dialect="smooth", transport="ws", address=address))
    assert f"smooth+ws:{address}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "is_literal"),
    [("//h/ws", False), ("//h/ws?token=x", True), ("//h/ws?token=env:X", False), ("//h/ws?token=file:x", False)],
)
def test_an_endpoint_knows_if_a_secret_is_written_in_it(text: str, is_literal: bool) -> None:
    assert parse(f"smooth+ws:{text}").has_literal_secret == is_literal


def test_the_error_for_a_missing_secret_names_the_endpoint_and_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_TEST_NONE", raising=False)
    endpoint = parse("smooth+ws://h/ws?token=env:DRAGOMAN_TEST_NONE")
    with pytest.raises(ConfigError) as caught:
        endpoint.secret("token")
    words = "smooth+ws://h/ws?token=***: token: the environment variable DRAGOMAN_TEST_NONE is not set"
    assert str(caught.value) == words


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "0.0.0.0", "127.0.0.1"])
def test_each_host_that_includes_the_loopback_address_takes_its_port(host: str) -> None:
    assert ("tcp", "127.0.0.1", 80) in tcp_places(host, 80)


def test_different_hosts_and_ports_have_different_addresses_and_port_0_has_none() -> None:
    assert tcp_places("Agents.example", 80, 81) == (("tcp", "agents.example", 80), ("tcp", "agents.example", 81))
    assert set(tcp_places("127.0.0.1", 80)).isdisjoint(tcp_places("::1", 80))
    assert tcp_places("127.0.0.1", 0) == ()


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        ("pod+name:atlas.2", "atlas.2"),
        ("pod+unix:/run/pods/atlas/sock", "atlas"),
        ("pod+unix:/run/atlas.sock", "atlas"),
        ("pod+dir:/run/pods", ""),
        ("codewhale+unix:/run/atlas/sock", ""),
    ],
)
def test_a_pod_is_named_after_the_folder_of_its_socket(endpoint: str, name: str) -> None:
    assert parse(endpoint).pod_name == name
