from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.core.errors import LimitError
from catena.core.run_ref import RunRef
from catena.runtime.resume_file import (
    MalformedResumeFileError,
    ResumeFile,
    ResumePoint,
    parse,
    serialise,
)

KEY = b"k" * 32
POINT = ResumePoint(
    next_chunk="actionchains.actionchain_131_abc_2",
    actionchain_id=131,
    chunk=2,
    next_action_id=3,
    persist_boot_time="2026-11-21T14:09:50+00:00",
    boot_id="b1",
    session="s1",
    boundary="reboot",
    sha256="0" * 64,
    epoch=1,
)


@pytest.fixture
def file(tmp_path: Path) -> ResumeFile:
    (tmp_path / "conf").mkdir()
    return ResumeFile(tmp_path / "conf", tmp_path / "pki")


def test_resume_file_is_read_as_written(file: ResumeFile) -> None:
    file.write(POINT)
    assert file.waiting() == POINT
    assert file.taken() is None


#: As the first agent wrote it: chains wait for a boot while their agent is replaced.
EARLIEST = b"""\
next_chunk: "actionchains.actionchain_131_abc_2"
actionchain_id: 131
chunk: 2
next_action_id: 3
persist_boot_time: "2026-11-21T14:09:50+00:00"
boot_id: "b1"
session: "s1"
boundary: "reboot"
sha256: "0000000000000000000000000000000000000000000000000000000000000000"
epoch: 1
ssh_extra_filerefs: ""
hmac: "3c421f6c5f81d6b6aac995acb1ef3df6603cca5999ef2972750c0033e5a893b0"
"""


def test_resume_file_is_compatible_with_earlier_agents() -> None:
    assert parse(EARLIEST, KEY) == POINT
    assert serialise(POINT, KEY) == EARLIEST


def test_resume_file_is_readable_yaml(file: ResumeFile) -> None:
    import yaml

    file.write(POINT)
    data = yaml.safe_load(file.path.read_text())
    assert data["next_chunk"] == POINT.next_chunk
    assert (data["actionchain_id"], data["next_action_id"]) == (131, 3)
    assert data["persist_boot_time"] == POINT.persist_boot_time


def test_file_and_key_are_for_their_owner_only(file: ResumeFile, tmp_path: Path) -> None:
    file.write(POINT)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "pki/resume.key").stat().st_mode & 0o777 == 0o600


def test_taking_renames_the_resume_file_so_that_it_is_never_missing(file: ResumeFile) -> None:
    file.write(POINT)
    file.take()
    assert not file.path.exists()
    assert file.taken() == POINT
    file.drop_taken()
    assert file.taken() is None


def test_leftovers_of_a_killed_writer_are_removed(file: ResumeFile) -> None:
    file.sweep()
    file.write(POINT)
    torn = file.path.with_name(f".{file.path.name}.4711.new")
    other = file.path.with_name(".other.conf.4711.new")
    torn.write_bytes(b"next_ch")
    other.write_bytes(b"")
    file.sweep()
    assert sorted(file.path.parent.iterdir()) == [other, file.path]
    assert file.waiting() == POINT


def test_clearing_removes_both_and_says_whether_there_was_one(file: ResumeFile) -> None:
    assert file.clear() is False if file.path.parent.exists() else True
    file.write(POINT)
    file.take()
    file.write(POINT)
    assert file.clear() is True
    assert (file.waiting(), file.taken()) == (None, None)


@given(
    point=st.builds(
        ResumePoint,
        next_chunk=st.text(),
        actionchain_id=st.integers(0, 10**17),
        chunk=st.integers(0, 10**6),
        next_action_id=st.none() | st.integers(0, 10**17),
        persist_boot_time=st.text(),
        boot_id=st.text(),
        session=st.text(),
        boundary=st.sampled_from(["reboot", "agent_upgrade"]),
        sha256=st.text(),
        epoch=st.integers(0, 10**9),
        ssh_extra_filerefs=st.text(),
    )
)
def test_resume_file_keeps_any_text(point: ResumePoint) -> None:
    assert parse(serialise(point, KEY), KEY) == point


@pytest.mark.parametrize(
    ("boundary", "why"),
    [
        ("kernel", "unknown boundary 'kernel'; there are reboot, agent_upgrade"),
        ("rebot", "unknown boundary 'rebot'; did you mean 'reboot'?"),
        ("none", "unknown boundary 'none'; there are reboot, agent_upgrade"),
    ],
)
def test_resume_file_that_waits_for_an_unknown_boundary_is_refused(
    file: ResumeFile, boundary: str, why: str
) -> None:
    file.write(dataclasses.replace(POINT, boundary=boundary))
    with pytest.raises(MalformedResumeFileError) as caught:
        file.waiting()
    assert why in str(caught.value) and "to give that chain up" in str(caught.value)


@given(place=st.integers(0, len(serialise(POINT, KEY)) - 1), value=st.integers(0, 255))
def test_any_changed_byte_is_refused(place: int, value: int) -> None:
    data = bytearray(serialise(POINT, KEY))
    if data[place] == value:
        return
    data[place] = value
    with pytest.raises(MalformedResumeFileError):
        parse(bytes(data), KEY)


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        ("next_chunk: a.b\nactionchain_id: 99\n", False),
        ("next_chunk: a.b\nactionchain_id: 7\nepoch: 3\n", False),
        ("next_chunk: a.b\nactionchain_id: 7\nepoch: 2\n", True),
        ("actionchain_id: 99999999999999999999\n", True),
        ("\0\0\0\0", True),
    ],
)
def test_cleaning_one_run_keeps_an_unsigned_file_of_another_run(
    file: ResumeFile, text: str, goes: bool
) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(text)
    assert file.clear_run(RunRef(7, 2)) is goes
    assert file.path.exists() is not goes


def test_resume_file_of_another_host_is_refused(file: ResumeFile) -> None:
    file.write(POINT)
    file.path.write_bytes(serialise(POINT, b"other key, 32 bytes long, really"))
    with pytest.raises(MalformedResumeFileError, match=r"signature.*mgractionchains\.clean"):
        file.waiting()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"nonsense\n", "line 1"),
        (b'next_chunk: "a"\nnext_chunk: "b"\n', "line 2"),
        (b"next_chunk: !!python/object/apply:os.system [id]\n", "must be text"),
        (b'actionchain_id: "1"\n', "must be a number"),
        (b'surprise: "1"\n', "unknown key 'surprise'"),
        (b'next_chunk: "a"\n', "is missing"),
    ],
)
def test_parser_is_strict_even_with_a_right_signature(body: bytes, why: str) -> None:
    import hashlib
    import hmac

    data = body + b'hmac: "%s"\n' % hmac.new(KEY, body, hashlib.sha256).hexdigest().encode()
    with pytest.raises(MalformedResumeFileError, match=why):
        parse(data, KEY)


def test_huge_file_is_refused_unread(file: ResumeFile) -> None:
    file.write(POINT)
    file.path.write_bytes(b"x" * 70_000)
    with pytest.raises(MalformedResumeFileError, match="larger than"):
        file.waiting()


def test_pipe_in_its_place_does_not_block(file: ResumeFile) -> None:
    file.write(POINT)
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(MalformedResumeFileError):
        file.waiting()


def test_oversized_resume_data_is_refused_before_anything_is_written(file: ResumeFile) -> None:
    with pytest.raises(LimitError):
        file.write(dataclasses.replace(POINT, ssh_extra_filerefs="x" * 70_000))
    assert file.waiting() is None
