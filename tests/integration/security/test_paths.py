"""Names sent by a minion never lead to paths outside of their folders."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest

from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    Failure,
    FilePush,
    FilesRequest,
    FileStored,
    JobOrder,
    JobReceived,
    JobRejected,
    JobReturned,
    ManifestReply,
    ManifestRequest,
    PillarReply,
    PillarRequest,
    ReturnPart,
)
from tests.integration.security.conftest import CANARY
from tests.integration.security.hostile import Hostile, Site, schedule

DIGEST = hashlib.sha256(CANARY.encode()).hexdigest()
HOSTILE = [
    "../outside",
    "/../outside",
    "x/../../outside",
    "..",
    ".",
    "//etc/passwd",
    "/etc/passwd",
    "./site.sls",
    "site.sls/../../outside",
    "%2e%2e/outside",
    "..\\outside",
    "\uff0e\uff0e/outside",
    "/proc/self/environ",
    "|cat /etc/passwd",
    "salt://../outside",
    "link",
    "site.sls\0.png",
    "a\nb",
    "x" * 5000,
    "../" * 300 + "etc/passwd",
]
ENVIRONMENTS = ["../base", "..", "", "/", "base/..", "../../etc", "__env__", "a\0b", "x" * 5000]
JIDS = ["../../../proc/kmsg", "", "2026010100000000000", "x" * 20, "\uff12" * 20, "2" * 100_000]


@pytest.mark.parametrize("path", HOSTILE)
def test_path_outside_the_file_roots_is_refused(evil: Hostile, path: str) -> None:
    for digest in (DIGEST, hashlib.sha256(b"").hexdigest(), "", "../x"):
        for request in (
            ChunkRequest("base", path, digest, 0),
            FilesRequest("base", (path,), (digest,)),
        ):
            answer = evil.ask(request, "bulk")
            assert isinstance(answer, Failure), answer
            assert CANARY not in str(answer)


@pytest.mark.parametrize("path", ["../outside", "no/such", "link", "/etc/passwd", "/etc/no"])
def test_forbidden_and_missing_files_give_the_same_answer(evil: Hostile, path: str) -> None:
    answer = evil.ask(ChunkRequest("base", path, DIGEST, 0), "bulk")
    assert isinstance(answer, Failure)
    assert "outside" not in answer.message.replace(path, "")


@pytest.mark.parametrize("offset", [-1, 2**62, 2**63 - 1])
def test_chunk_outside_a_file_is_refused_or_empty(evil: Hostile, offset: int) -> None:
    listed = evil.ask(ManifestRequest("base"), "bulk")
    answer = evil.ask(ChunkRequest("base", "", listed.sha256, offset), "bulk")
    assert isinstance(answer, Failure) or answer.data == b""


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_unconfigured_environment_has_no_files(evil: Hostile, name: str) -> None:
    listed = evil.ask(ManifestRequest(name), "bulk")
    if isinstance(listed, ManifestReply):
        blob = evil.ask(ChunkRequest(name, "", listed.sha256, 0), "bulk")
        assert isinstance(blob, ChunkReply) and b"site.sls" not in zlib.decompress(blob.data)
    asked = PillarRequest(saltenv=name, pillarenv=name)
    reply = evil.ask(asked, seconds=30)
    assert CANARY not in str(reply)
    assert isinstance(reply, (PillarReply, Failure))


@pytest.mark.parametrize("jid", JIDS)
def test_invalid_jid_is_refused(evil: Hostile, jid: str) -> None:
    for message in (JobReturned(evil.ret(jid)), JobReceived(jid, 0), JobRejected(jid, "x")):
        assert isinstance(evil.ask(message), Failure)
    assert isinstance(evil.ask(ReturnPart(jid, DIGEST, 0, 1, b"x"), "bulk"), Failure)


@pytest.mark.parametrize(
    "path",
    ["../../../../etc/cron.d/x", "/etc/cron.d/x", "a/../../x", "a//b", "", ".", "a\0b", "x/" * 40],
)
def test_pushed_file_stays_in_the_minions_folder(site: Site, evil: Hostile, path: str) -> None:
    push = FilePush(path, hashlib.sha256(b"x").hexdigest(), 0, 1, b"x")
    assert isinstance(evil.ask(push, "bulk"), Failure)
    assert not Path("/etc/cron.d/x").exists()


def test_pushed_file_is_stored_under_the_name_of_the_connection(site: Site, evil: Hostile) -> None:
    push = FilePush("victim/evil.txt", hashlib.sha256(b"x").hexdigest(), 0, 1, b"x")
    assert evil.ask(push, "bulk") == FileStored(push.path, push.sha256, True)
    (found,) = site.fleet.folder.rglob("evil.txt")
    assert found.parts[-5:] == ("minions", "evil", "files", "victim", "evil.txt")
    assert found.read_bytes() == b"x" and found.stat().st_mode & 0o777 == 0o600


def test_chunks_of_a_chain_are_served_only_to_their_minion(
    site: Site, evil: Hostile, victim: Hostile
) -> None:
    chain = schedule(site, "secret", "victim", f"echo {CANARY}")
    victim.until(lambda said: begins(said.message, chain), "control", 20)
    (chunk,) = chunks(site)
    path, digest = f"actionchains/{chunk.name}", hashlib.sha256(chunk.read_bytes()).hexdigest()
    shown = victim.ask(ChunkRequest("base", path, digest, 0), "bulk")
    assert isinstance(shown, ChunkReply) and CANARY.encode() in shown.data
    assert isinstance(evil.ask(ChunkRequest("base", path, digest, 0), "bulk"), Failure)
    assert isinstance(evil.ask(FilesRequest("base", (path,), (digest,)), "bulk"), Failure)
    listed = victim.ask(ManifestRequest("base"), "bulk")
    stolen = evil.ask(ChunkRequest("base", "", listed.sha256, 0), "bulk")
    assert isinstance(stolen, Failure)
    own = evil.ask(ManifestRequest("base"), "bulk")
    names = zlib.decompress(evil.ask(ChunkRequest("base", "", own.sha256, 0), "bulk").data)
    assert b"site.sls" in names and chunk.name.encode() not in names


def begins(message: object, chain: int) -> bool:
    """Whether a chain's order is there: its chunks are so too, and known to be that minion's."""
    named = message.spec.payload if isinstance(message, JobOrder) else None
    return named is not None and named.number == chain


def chunks(site: Site) -> list[Path]:
    return list((site.home / "var/lib/catena/master/chains").rglob("actionchain_*.sls"))
