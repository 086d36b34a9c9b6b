"""An SSH server that does what a test says: greets, shows keys, lets in, answers as it likes."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import paramiko

from catena.core.ids import minion_id
from catena.ssh.connect.client_config import ClientFiles
from catena.ssh.connect.connection import SshConnection, open_connection
from catena.ssh.connect.host_keys import lookup_name
from catena.ssh.connect.target import SshTarget
from tests.support.waiting import PATIENCE_SECONDS

_TOKEN = re.compile(rb"catena-begin-([0-9a-f]{32})")


@dataclass
class Exec:
    """One command that the client asked for."""

    channel: Any
    command: bytes

    @property
    def token(self) -> str:
        found = _TOKEN.search(self.command)
        assert found is not None
        return found[1].decode()

    def begin(self) -> None:
        """Print the begin mark, as the real login shell does."""
        mark = f"catena-begin-{self.token}\n".encode()
        self.channel.sendall(mark)
        self.channel.sendall_stderr(mark)

    def line(self) -> bytes:
        """Return the next line of stdin."""
        data = b""
        while not data.endswith(b"\n"):
            piece = self.channel.recv(1)
            if not piece:
                break
            data += piece
        return data

    def end(self, code: int = 0) -> None:
        self.channel.send_exit_status(code)
        self.channel.close()


Runs = Callable[[Exec], None]


@dataclass
class Script(paramiko.ServerInterface):  # type: ignore[misc]  # paramiko has no types
    """What the server does; the defaults let everybody in by password and run nothing."""

    runs: Runs = lambda command: None
    password: str = "right"
    methods: str = "password"
    on_auth: Callable[[], None] = lambda: None
    #: Called before a channel is opened, and before a command is taken.
    on_channel: Callable[[], None] = lambda: None
    on_exec: Callable[[], None] = lambda: None
    #: What was seen of the client: ("password", text), ("key", kind), ("exec", text), …
    seen: list[tuple[str, Any]] = field(default_factory=list)
    questions: list[tuple[str, bool]] = field(default_factory=list)
    takes_exec: bool = True

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_password(self, username: str, password: str) -> int:
        self.seen.append(("password", password))
        self.on_auth()
        right = password == self.password and "password" in self.methods.split(",")
        return int(paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED)

    def check_auth_publickey(self, username: str, key: Any) -> int:
        self.seen.append(("key", key.get_name()))
        return int(paramiko.AUTH_FAILED)

    def check_auth_interactive(self, username: str, submethods: str) -> Any:
        return paramiko.InteractiveQuery("", "", *self.questions)

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        self.seen.append(("answers", list(responses)))
        right = self.password in responses
        return int(paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self.on_channel()
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        self.seen.append(("exec", command))
        self.on_exec()
        if self.takes_exec:
            replied = _sent_reply_event(channel.transport)
            arguments = (Exec(channel, command), replied)
            threading.Thread(target=self._run, args=arguments, daemon=True).start()
        return self.takes_exec

    def _run(self, command: Exec, replied: threading.Event) -> None:
        replied.wait(PATIENCE_SECONDS)
        try:
            self.runs(command)
        except (OSError, EOFError):
            # The client has gone, which most of these tests want.
            return


def _sent_reply_event(transport: Any) -> threading.Event:
    """Return an event that is set when the next message to the client has gone out."""
    replied, send = threading.Event(), transport._send_user_message

    def noted_send(message: Any) -> None:
        transport._send_user_message = send
        send(message)
        replied.set()

    transport._send_user_message = noted_send
    return replied


class HostileSshd:
    """The server on a port of loopback; a context manager.

    Args:
        script: what it does once SSH is spoken.
        raw: gets each connection before any SSH; it takes it unless it returns False.
    """

    def __init__(
        self,
        folder: Path,
        script: Script | None = None,
        raw: Callable[[socket.socket], object] | None = None,
    ) -> None:
        self.script = script or Script()
        self._raw = raw
        self._folder = folder
        self.key = paramiko.ECDSAKey.generate()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.transports: list[Any] = []
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> HostileSshd:
        self.know(self.key)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closing alone would leave accept() waiting.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_SECONDS)
        for each in [*self.transports, *self._sockets]:
            each.close()

    def know(self, key: Any) -> None:
        """Have the client know *key* as this server's."""
        name = lookup_name("127.0.0.1", self.port)
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        (self._folder / "known_hosts").write_text(line)

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(wire)
            threading.Thread(target=self._one, args=(wire,), daemon=True).start()

    def _one(self, wire: socket.socket) -> None:
        try:
            if self._raw is not None and self._raw(wire) is not False:
                return
            transport = paramiko.Transport(wire)
            transport.add_server_key(self.key)
            self.transports.append(transport)
            transport.start_server(server=self.script)
        except (OSError, EOFError, paramiko.SSHException):
            # The client has refused us.
            return

    def target(self, **fields: Any) -> SshTarget:
        given = {"user": "me", "password": "right", "timeout_seconds": 5, **fields}
        return SshTarget(minion_id("bad"), "127.0.0.1", self.port, **given)

    def connect(self, **fields: Any) -> SshConnection:
        files = ClientFiles(self._folder, (), self._folder / "known_hosts")
        return open_connection(self.target(**fields), files)
