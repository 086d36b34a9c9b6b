"""Connections to a real sshd: keys, configuration, jump hosts and lost hosts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import free_ports

from catena.core.ids import minion_id
from catena.ssh.connect.client_config import ClientFiles, route
from catena.ssh.connect.connection import open_connection
from catena.ssh.connect.errors import (
    ChannelLostError,
    HostKeyError,
    PushPhase,
    SshError,
)
from catena.ssh.connect.host_keys import judge, read
from catena.ssh.connect.target import SshTarget
from catena.ssh.connect.transport import shown_keys
from tests.support.ssh_server import USER, SshServer, make_key


def works(target: SshTarget, files: ClientFiles) -> bool:
    """Return whether a command runs there."""
    connection = open_connection(target, files)
    said = connection.run(["echo", "yes"]).stdout
    connection.close()
    return said == b"yes\n"


def test_default_key_logs_in(server: SshServer) -> None:
    assert works(server.target(), server.files())


def test_host_alias_with_key_and_hashed_known_hosts_logs_in(
    server: SshServer, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    shutil.copy(server.known_hosts, known)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    config = (
        f"Host box\n  HostName 127.0.0.1\n  Port {server.ports['plain']}\n  User {USER}\n"
        f"  IdentityFile ~/.ssh/id_ed25519\n  UserKnownHostsFile {known}\n"
    )
    files = server.files(config)
    none = ClientFiles(files.home, files.configs, tmp_path / "none")
    assert works(SshTarget(minion_id("box"), "box"), none)
    server.files("# nothing\n")


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_keys_of_other_kinds_log_in(server: SshServer, tmp_path: Path, kind: str) -> None:
    public = make_key(tmp_path / "key", kind)
    with server.authorized_keys.open("a") as stream:
        stream.write(f"{public}\n")
    assert works(server.target(private_key=str(tmp_path / "key")), server.files())


def test_encrypted_key_needs_its_password(server: SshServer, tmp_path: Path) -> None:
    public = make_key(tmp_path / "key", password="open sesame")
    with server.authorized_keys.open("a") as stream:
        stream.write(f"{public}\n")
    path = str(tmp_path / "key")
    assert works(
        server.target(private_key=path, private_key_password="open sesame"), server.files()
    )
    for password in ("", "wrong"):
        with pytest.raises(SshError, match="needs its right password") as caught:
            server.connect(private_key=path, private_key_password=password)
        assert caught.value.phase is PushPhase.authenticate


def test_user_certificate_logs_in(server: SshServer, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "ca")
    make_key(tmp_path / "key")
    argv = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "test", "-n", USER]
    subprocess.run([*argv, str(tmp_path / "key.pub")], check=True, capture_output=True)
    with server.authorized_keys.open("a") as stream:
        stream.write(f"cert-authority {authority}\n")
    assert works(server.target(private_key=str(tmp_path / "key")), server.files())


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    # It prints its socket's name when it listens.
    process.stdout.readline()
    yield path
    process.terminate()
    process.wait(60)
    process.stdout.close()


def test_key_of_the_ssh_agent_logs_in(server: SshServer, tmp_path: Path, agent: Path) -> None:
    public = make_key(tmp_path / "key")
    with server.authorized_keys.open("a") as stream:
        stream.write(f"{public}\n")
    environment = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
    add = ["ssh-add", "-q", str(tmp_path / "key")]
    subprocess.run(add, check=True, env=environment, capture_output=True)
    (tmp_path / "key").unlink()
    home = ClientFiles(tmp_path, (), server.known_hosts, str(agent))
    assert works(server.target(), home)
    with pytest.raises(SshError, match="no key to try"):
        open_connection(server.target(identities_only=True), home)


def test_missing_ssh_agent_is_reported(server: SshServer, tmp_path: Path) -> None:
    files = ClientFiles(tmp_path, (), server.known_hosts, str(tmp_path / "gone"))
    with pytest.raises(SshError, match=r"agent at .*gone"):
        open_connection(server.target(), files)


def test_refused_key_is_named_in_the_error(server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    with pytest.raises(SshError, match=f"{USER} is refused: tried .*stranger") as caught:
        server.connect(private_key=str(tmp_path / "stranger"))
    assert caught.value.phase is PushPhase.authenticate
    assert not caught.value.waits


def test_jump_host_connects_and_its_key_is_checked(server: SshServer) -> None:
    config = (
        f"Host inner\n  HostName 127.0.0.1\n  Port {server.ports['noisy']}\n"
        f"  ProxyJump 127.0.0.1:{server.ports['plain']}\n"
    )
    inner = SshTarget(minion_id("inner"), "inner", user=USER)
    assert works(inner, server.files(config))
    server.know("noisy")
    try:
        with pytest.raises(HostKeyError, match=r"inner \(through 127\.0\.0\.1\)"):
            open_connection(inner, server.files())
    finally:
        server.know(*server.ports)
        server.files("# nothing\n")


def test_proxy_command_connects_without_a_shell(server: SshServer, tmp_path: Path) -> None:
    relay = tmp_path / "relay"
    relay.write_text(
        "#!/usr/bin/env python3\n"
        "import os, select, socket, sys\n"
        "wire = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "while True:\n"
        "    for each in select.select([0, wire], [], [])[0]:\n"
        "        data = os.read(0, 65536) if each == 0 else wire.recv(65536)\n"
        "        if not data: sys.exit()\n"
        "        wire.sendall(data) if each == 0 else os.write(1, data)\n"
    )
    relay.chmod(0o755)
    config = f"Host *\n  ProxyCommand {relay} %h %p ; touch {tmp_path / 'X'}\n"
    assert works(server.target(), server.files(config))
    assert not (tmp_path / "X").exists()
    server.files("# nothing\n")


def test_missing_proxy_command_program_is_reported(server: SshServer) -> None:
    with pytest.raises(SshError, match="ProxyCommand /nowhere: No such file"):
        open_connection(server.target(), server.files("Host *\n  ProxyCommand /nowhere %h\n"))
    server.files("# nothing\n")


def test_scanned_host_keys_equal_those_of_the_host(server: SshServer) -> None:
    files = server.files()
    way = route(server.target(), files)
    (key,) = shown_keys(way, "plain", "trust", 20)
    assert judge(read([server.known_hosts]), way[-1].key_name, key)[0] == "known"


def test_new_key_at_a_known_address_is_refused_before_the_login(
    server: SshServer, tmp_path: Path
) -> None:
    """Attack row 2013-4436."""
    other = make_key(tmp_path / "other")
    text = server.known_hosts.read_text()
    server.known_hosts.write_text(text.replace(server.host_key, other))
    try:
        with pytest.raises(HostKeyError, match="host key changed") as caught:
            server.connect()
        assert "catena ssh-key trust 127.0.0.1:" in str(caught.value)
    finally:
        server.known_hosts.write_text(text)


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


def test_host_certificate_of_an_authority_is_accepted_for_an_ipv6_address(tmp_path: Path) -> None:
    address = "::1" if has_ipv6() else "127.0.0.1"
    authority = make_key(tmp_path / "ca")
    certificate = tmp_path / "host-cert.pub"
    port = free_ports(1)
    with SshServer(
        options=[f"ListenAddress [{address}]:{port}", f"HostCertificate {certificate}"]
    ) as found:
        found.stop()
        key = found.folder / "host_ed25519"
        for names, words in ((address, ""), ("other", "it is for other, not for")):
            argv = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "x", "-h", "-n", names]
            subprocess.run([*argv, f"{key}.pub"], check=True, capture_output=True)
            shutil.move(f"{key}-cert.pub", certificate)
            found.known_hosts.write_text(f"@cert-authority [{address}]:* {authority}\n")
            found.start()
            target = SshTarget(minion_id("six"), address, port, USER, timeout_seconds=20)
            if words:
                with pytest.raises(HostKeyError, match=words):
                    open_connection(target, found.files())
            else:
                assert works(target, found.files())
                found.known_hosts.write_text(
                    f"@cert-authority * {authority}\n@revoked * {authority}\n"
                )
                with pytest.raises(HostKeyError, match="not known"):
                    open_connection(target, found.files())
            found.stop()


def test_weak_algorithms_are_not_offered(server: SshServer) -> None:
    """Attack rows X21 and X22."""
    connection = server.connect()
    transport = connection._line.transport
    offered = [
        *transport.preferred_ciphers,
        *transport.preferred_macs,
        *transport.preferred_kex,
        *transport.preferred_keys,
        *transport.preferred_pubkeys,
    ]
    for weak in (
        "cbc",
        "3des",
        "arcfour",
        "md5",
        "sha1-",
        "group1-",
        "chacha20",
        "ssh-rsa",
        "dss",
    ):
        assert not [name for name in offered if weak in f"{name}-"], weak
    assert transport.advertise_strict_kex
    connection.close()


def test_broken_connection_raises_a_lost_channel(server: SshServer) -> None:
    connection = server.connect()
    begun = threading.Event()
    found: list[Exception] = []

    def runs() -> None:
        try:
            begun.set()
            connection.run(["sleep", "100"], timeout=60)
        except SshError as error:
            found.append(error)

    thread = threading.Thread(target=runs)
    thread.start()
    begun.wait(60)
    server.cut()
    thread.join(90)
    connection.close()
    assert isinstance(found[0], ChannelLostError)
    assert found[0].waits
