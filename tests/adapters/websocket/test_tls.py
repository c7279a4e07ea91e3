"""TLS on both sides, with certificates that the tests make."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import structs

from dragoman.adapters.base import PeerFacts
from dragoman.adapters.websocket import CertificateFiles, ServerTls, client_context, connect
from dragoman.adapters.websocket.tls import FILE_MAX, CertificateDates, read_dates, subject_of
from dragoman.mappings.errors import ConfigError
from tests.adapters.websocket.certificates import NOW, Authority
from tests.adapters.websocket.peers import DEADLINE, KEY, LIMITS, Server, serving
from tests.idle import settle
from tests.transport_reader import receive

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY.encode() + b"\r\n\r\n"
)

told: list[str] = []


def report(_event: str, cause: str) -> None:
    told.append(cause)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    told.clear()
    return Authority(tmp_path)


def server_tls(authority: Authority, *, asks: Authority | None = None) -> ServerTls:
    certificate, key = authority.issue("server")
    authorities = str(asks.path) if asks is not None else ""
    return ServerTls(CertificateFiles(certificate=certificate, key=key, authorities=authorities), report)


def trusting(authority: Authority, certificate: str = "", key: str = "") -> ssl.SSLContext:
    return client_context(CertificateFiles(authorities=str(authority.path), certificate=certificate, key=key))


@asynccontextmanager
async def dialled(server: Server, context: ssl.SSLContext) -> AsyncIterator[None]:
    client = await connect(server.url, LIMITS, context)
    ours = await server.next()
    await client.send([b"hello"])
    assert await receive(ours) == [b"hello"]
    yield
    await client.close()


async def test_a_client_that_trusts_the_authority_is_served(authority: Authority) -> None:
    async with serving(tls=server_tls(authority)) as server, dialled(server, trusting(authority)):
        assert server.url.startswith("wss://")


async def test_a_client_that_does_not_trust_the_authority_refuses_the_server(authority: Authority) -> None:
    async with serving(tls=server_tls(authority)) as server:
        with pytest.raises(OSError, match="the server's certificate is not accepted"):
            await connect(server.url, LIMITS)


def test_tls_below_version_1_2_is_refused(authority: Authority) -> None:
    contexts = server_tls(authority).newest_context(), trusting(authority)
    assert {context.minimum_version for context in contexts} == {ssl.TLSVersion.TLSv1_2}


async def common_name(port: int, authority: Authority) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority))
    subject = writer.get_extra_info("peercert")["subject"]
    writer.transport.abort()
    return str(subject[0][0][1])


async def test_a_renewed_certificate_is_taken_at_the_next_handshake(authority: Authority) -> None:
    async with serving(tls=server_tls(authority)) as server:
        assert await common_name(server.port, authority) == "server"
        for new, old in zip(authority.issue("renewed"), authority.issue("server"), strict=True):
            Path(new).replace(old)
        assert await common_name(server.port, authority) == "renewed"
    assert told == []


def half(file: Path) -> None:
    file.write_text("half of a certif")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def huge(file: Path) -> None:
    os.truncate(file, FILE_MAX + 1)


@pytest.mark.parametrize("spoil", [half, pipe, huge])
async def test_a_failed_certificate_renewal_is_logged_once_and_the_old_certificate_stays(
    authority: Authority, spoil: Callable[[Path], None]
) -> None:
    tls = server_tls(authority)
    async with serving(tls=tls) as server:
        spoil(authority.path.parent / "server.crt")
        assert [await common_name(server.port, authority) for _ in range(2)] == ["server", "server"]
    (text,) = told
    assert text.startswith(f"the certificate {authority.path.parent}/server.crt ")


async def visit(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
    """Ask the listener at this port for a WebSocket, and return the session of TLS that can be resumed.

    Raise OSError if the listener accepts no connection. The session of TLS 1.3 comes with the answer.
    """

    def ask() -> ssl.SSLSession | None:
        with (
            socket.create_connection(("127.0.0.1", port), DEADLINE) as tcp,
            context.wrap_socket(tcp, server_hostname="127.0.0.1", session=session) as tls,
        ):
            tls.sendall(HANDSHAKE)
            if not tls.recv(100).startswith(b"HTTP/1.1 101 "):
                raise ConnectionError
            return tls.session

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_of_tls_cannot_be_resumed_after_its_authority_was_replaced(
    authority: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    (tmp_path / "other").mkdir()
    former, other = Authority(tmp_path, "former"), Authority(tmp_path / "other", "former")
    tls, client = server_tls(authority, asks=former), trusting(authority, *former.issue("alice"))
    client.minimum_version = client.maximum_version = version
    async with serving(tls=tls) as server:
        session = await visit(server.port, client)
        other.path.replace(former.path)
        with pytest.raises(OSError):  # noqa: PT011  # TLS 1.2: EOF; TLS 1.3: the alert, or a reset
            await visit(server.port, client, session)


@pytest.mark.parametrize("asks", [False, True], ids=["", "with client_ca"])
@pytest.mark.parametrize(
    ("minutes", "why"),
    [
        (0, ""),
        (-55, "certificate expires soon, on "),
        (-120, "certificate has expired on "),
        (120, "certificate is not yet valid, only from "),
    ],
)
def test_a_certificate_whose_dates_clients_refuse_now_or_soon_is_detected(
    authority: Authority, minutes: int, why: str, asks: bool
) -> None:
    around = NOW + timedelta(minutes=minutes)
    certificate, key = authority.issue("server", around=around)
    authorities = str(authority.path) if asks else ""
    dates = read_dates(CertificateFiles(certificate=certificate, key=key, authorities=authorities))
    assert dates is not None
    fault = dates.find_fault(NOW.timestamp())
    assert fault.startswith(why)
    assert bool(fault) == bool(why)
    assert dates.end == int((around + timedelta(hours=1)).timestamp())


def test_a_certificate_for_years_expires_soon_two_weeks_before() -> None:
    dates = CertificateDates(begin=0.0, end=3650 * 86_400.0)
    assert dates.find_fault(3635 * 86_400.0) == ""
    assert dates.find_fault(3637 * 86_400.0) == "certificate expires soon, on 1979-12-30 00:00 UTC"


async def test_a_certificate_that_is_not_renewed_is_told_of_once_before_and_once_after_its_end(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = server_tls(authority)
    assert tls.certificate_end is not None
    async with serving(tls=tls) as server:
        for left in (3600, 300, 200, -1, -2, -3):
            monkeypatch.setattr("time.time", lambda left=left: tls.certificate_end - left)
            await common_name(server.port, authority)
    assert [text[:23] for text in told] == ["certificate expires soo", "certificate has expired"]


def test_the_dates_of_a_certificate_that_few_clients_accept_are_unknown(authority: Authority) -> None:
    certificate, key = authority.issue("server", curve=ec.BrainpoolP256R1())
    assert read_dates(CertificateFiles(certificate=certificate, key=key)) is None


async def test_a_certificate_in_the_list_of_revoked_ones_is_refused(authority: Authority, tmp_path: Path) -> None:
    kinds: list[str] = []
    clients = Authority(tmp_path, "clients")
    alice, bob = clients.issue("alice"), clients.issue("bob")
    async with serving(tls=server_tls(authority, asks=clients), bad_request=kinds.append) as server:
        await visit(server.port, trusting(authority, *bob))
        with clients.path.open("ab") as file:
            file.write(clients.revoke(bob[0]))
        await visit(server.port, trusting(authority, *alice))
        with pytest.raises(OSError):  # noqa: PT011  # the alert, or a reset
            await visit(server.port, trusting(authority, *bob))
    assert kinds == ["TLS: certificate revoked"]


async def test_a_server_whose_certificate_is_in_the_list_of_revoked_ones_is_not_used(authority: Authority) -> None:
    certificate, key = authority.issue("server")
    other, _ = authority.issue("other")
    known = authority.path.read_bytes()
    tls = ServerTls(CertificateFiles(certificate=certificate, key=key), report)
    async with serving(tls=tls) as server:
        authority.path.write_bytes(known + authority.revoke(other))
        async with dialled(server, trusting(authority)):
            pass
        authority.path.write_bytes(known + authority.revoke(certificate))
        with pytest.raises(OSError, match="certificate revoked"):
            await connect(server.url, LIMITS, trusting(authority))


def test_a_subject_tells_a_group_of_attributes_from_several_groups() -> None:
    name, unit = ("commonName", "a"), ("organizationalUnitName", "b+c")
    assert subject_of({"subject": ((name,), (unit,))}) == "CN=a,OU=b\\+c"
    assert subject_of({"subject": ((name, unit),)}) == "CN=a+OU=b\\+c"


async def test_the_subject_of_a_client_certificate_is_a_fact_of_the_peer(authority: Authority) -> None:
    facts: list[PeerFacts] = []

    def identify(peer: PeerFacts) -> str:
        facts.append(peer)
        return ""

    alice = authority.issue("alice", "Example, Inc.")
    tls = server_tls(authority, asks=authority)
    async with serving(tls=tls, identify=identify) as server, dialled(server, trusting(authority, *alice)):
        assert [peer.certificate for peer in facts] == ["CN=alice,O=Example\\, Inc."]
        assert [peer.certificate_end for peer in facts] == [int((NOW + timedelta(hours=1)).timestamp())]


@pytest.mark.parametrize(
    ("stranger", "cause"),
    [(False, "PEER_DID_NOT_RETURN_A_CERTIFICATE"), (True, "unable to get local issuer certificate")],
)
async def test_a_client_without_a_certificate_of_the_authority_is_refused(
    authority: Authority, tmp_path: Path, stranger: bool, cause: str
) -> None:
    (tmp_path / "other").mkdir()
    pair = Authority(tmp_path / "other", "stranger").issue("alice") if stranger else ("", "")
    kinds: list[str] = []
    async with serving(tls=server_tls(authority, asks=authority), bad_request=kinds.append) as server:
        with pytest.raises(OSError, match="wss://"):
            await connect(server.url, LIMITS, trusting(authority, *pair))
        assert server.transports == []
    assert set(kinds) == {"TLS: " + cause}


async def test_a_connection_that_ends_before_its_tls_handshake_is_no_bad_request(authority: Authority) -> None:
    kinds: list[str] = []
    async with serving(tls=server_tls(authority), bad_request=kinds.append) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.close()
        await writer.wait_closed()
        await settle()
    assert kinds == []


def broken(authority: Authority, case: str) -> CertificateFiles:
    certificate, key = authority.issue("one")
    _, other = authority.issue("two")
    garbage = authority.path.with_name("garbage.pem")
    garbage.write_text("garbage")
    return {
        "missing": CertificateFiles(certificate=certificate, key="/no/such.key"),
        "mismatch": CertificateFiles(certificate=certificate, key=other),
        "garbage": CertificateFiles(certificate=str(garbage), key=key),
        "authorities": CertificateFiles(certificate=certificate, key=key, authorities=str(garbage)),
        "no key": CertificateFiles(certificate=certificate),
        "encrypted": CertificateFiles(certificate=certificate, key=encrypted(key)),
    }[case]


def encrypted(key: str) -> str:
    """Write the key with a password to another file; return its path."""
    path = Path(f"{key}.encrypted")
    password = serialization.BestAvailableEncryption(b"secret")
    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, form, password))
    return str(path)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("missing", "the key /no/such.key cannot be read: No such file"),
        ("mismatch", "two.key does not belong to the certificate "),
        ("garbage", "garbage.pem or the key "),
        ("authorities", "garbage.pem are not valid PEM"),
        ("no key", "TLS needs the file of a key"),
        ("encrypted", "the key is encrypted; dragoman cannot ask for its password"),
    ],
)
def test_an_error_names_the_file(authority: Authority, case: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServerTls(broken(authority, case), report)
    assert words in str(caught.value)


@asynccontextmanager
async def plain(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Return a connection without TLS."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield reader, writer
    writer.transport.abort()


async def test_a_connection_counts_before_and_during_its_tls_handshake(authority: Authority) -> None:
    connections: list[str] = []
    ended = asyncio.Event()

    def connect(peer: str) -> str:
        connections.append(peer)
        return ""

    def disconnect(peer: str) -> None:
        connections.remove(peer)
        ended.set()

    async with (
        serving(tls=server_tls(authority), connect=connect, disconnect=disconnect) as server,
        plain(server.port) as (_, writer),
    ):
        async with dialled(server, trusting(authority)):
            assert len(connections) == 2
        writer.write(b"this is no TLS" * 100)
        while connections:
            ended.clear()
            await ended.wait()


async def test_a_connection_without_a_tls_handshake_ends_at_its_deadline(authority: Authority) -> None:
    limits = structs.replace(LIMITS, handshake_deadline=0.05)
    async with serving(limits, tls=server_tls(authority)) as server:
        async with plain(server.port) as (reader, _):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert server.transports == []


async def test_a_listener_that_closes_ends_the_tls_handshakes(authority: Authority) -> None:
    async with serving(tls=server_tls(authority)) as server, plain(server.port) as (reader, _):
        await server.listener.close()
        with suppress(ConnectionError):
            assert await reader.read() == b""


async def test_a_peer_for_which_there_is_no_room_gets_503_over_tls(authority: Authority) -> None:
    async with serving(tls=server_tls(authority), connect=lambda _peer: "no room") as server:
        with pytest.raises(OSError, match="HTTP 503 Service Unavailable: no room"):
            await connect(server.url, LIMITS, trusting(authority))
