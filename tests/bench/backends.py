"""The backends of the steady benchmark: many conversations, of which each says one token when it is told to.

They live in the measuring process: a token is written at its time, to one socket, so that the bridge is woken for it
alone. Before that everything is a handshake, one conversation after the other.
"""

from __future__ import annotations

import socket
from typing import Any
from uuid import uuid4

import msgspec

from tests.bench.backend import SNAPSHOT, WORDS, answer, line
from tests.bench.frames import accept, frame, headed, text, unmasked

__all__ = ["PodConversation", "SmoothConversation"]

PATIENCE = 20.0  # seconds for one step of a handshake

encode = msgspec.json.Encoder().encode


class PodConversation:
    """A pod's connection: it shows itself when it is made, `run` is answered by `accept_run`."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self._connection = connection
        self._said = 0
        connection.sendall(SNAPSHOT)

    def accept_run(self) -> int:
        """Read the input, a number, and take it."""
        received = b""
        while not received.endswith(b"\n"):
            received += _some(self._connection)
        segments = msgspec.json.decode(received)["params"]["input"]
        taken = line("user_message", segments=segments) + line("status", status="running")
        self._connection.sendall(taken + line("turn_start", turn=0))
        return int(segments[0]["content"])

    def token(self) -> None:
        """Say the next token."""
        self._connection.sendall(line("text_delta", text=WORDS[self._said % len(WORDS)]))
        self._said += 1

    def finish(self) -> None:
        """Say how the turn ends."""
        last = (
            line("text_done", text=answer(self._said)),
            line("turn_end", turn=0, result="finished"),
            line("run_end", result="finished"),
            line("status", status="idle"),
        )
        self._connection.sendall(b"".join(last))


class SmoothConversation:
    """A smooth server's connection: handshake, create and send_message are answered when it is made."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._received = b""
        self._said = 0
        accept(connection)
        created = self._action("create_conversation_session")
        names = ("sessionId", "conversationId", "userParticipantId", "agentParticipantId", "agentId")
        session = {name: str(uuid4()) for name in names} | {"agentName": "bench"}
        self._say("immediate_response", created["requestId"], status=200, message="OK", data=session)

    def accept_run(self) -> int:
        """Read the input, a number, and take it."""
        sent = self._action("send_message")
        self._request = sent["requestId"]
        self._say("immediate_response", self._request, status=202, message="Accepted", data={})
        return int(sent["message"])

    def token(self) -> None:
        """Say the next token."""
        word = WORDS[self._said % len(WORDS)]
        self._say("stream_token", self._request, token=word, data={"requestId": self._request, "token": word})
        self._said += 1

    def finish(self) -> None:
        """Say how the turn ends."""
        said = {
            "messageId": str(uuid4()),
            "response": {"responseParts": [answer(self._said)]},
            "needsEscalation": False,
        }
        data = {"requestId": self._request, "status": 200, "data": said}
        self._say("eventual_response", self._request, status=200, data=data)

    def _say(self, kind: str, request: str, **fields: object) -> None:
        self._connection.sendall(text(encode({"type": kind, "requestId": request, **fields, "timestamp": 1})))

    def _action(self, name: str) -> Any:
        """The next action, which must be this one."""
        while True:
            while not headed(self._received, 0) or len(self._received) < frame(self._received, 0)[2]:
                self._received += _some(self._connection)
            opcode, start, end = frame(self._received, 0)
            payload, self._received = self._received[start:end], self._received[end:]
            if opcode == 1:
                action = msgspec.json.decode(unmasked(payload))
                assert action["action"] == name, action
                return action


def _some(connection: socket.socket) -> bytes:
    chunk = connection.recv(65536)
    assert chunk, "the bridge closed the connection"
    return chunk
