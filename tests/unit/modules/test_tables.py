"""Hosts files, cron tables and account files: parsed, decided, written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import UsageError
from catena.modules import cron, hosts, shadow
from catena.modules.disk import parse_df
from catena.modules.shared import accounts
from catena.modules.shared.arguments import listed, mapped, take
from catena.modules.shared.command.options import RunOptions
from catena.modules.user import NewUser, add_words
from catena.states.group import Members, differences

PASSWD = "root:x:0:0:root:/root:/bin/sh\njoe:x:1000:1000:Joe,1,2,3:/home/joe:/bin/bash\nbad line\n"
GROUP = "root:x:0:\njoe:x:1000:\nwheel:x:10:joe,root\n"


def test_hosts_keep_comments_and_order() -> None:
    lines = hosts.parse("# local\n127.0.0.1 localhost\n10.9.9.9 old.example # was\n")
    lines = hosts.with_host(lines, "10.0.0.1", ["one"])
    lines = hosts.with_host(lines, "10.0.0.1", ["uno", "one"])
    written = [line.written() for line in lines]
    assert written[0] == "# local"
    assert written[2] == "10.9.9.9\t\told.example\t\t# was"
    assert written[3] == "10.0.0.1\t\tone uno"


def test_host_is_removed_with_its_last_name() -> None:
    lines = hosts.parse("10.0.0.1 a b\n")
    assert hosts.without_host(lines, "10.0.0.1", ["a"])[0].names == ("b",)
    assert hosts.without_host(lines, "", ["a", "b"]) == []


@pytest.mark.parametrize("name", ["a#b", "a\x00"])
def test_host_name_that_would_break_the_file_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        hosts.checked_names([name])


def test_cron_table_survives_reading_and_writing() -> None:
    text = (
        "MAILTO=x\n0 * * * * by hand\n" + cron.TAG + "PATH=/bin\n"
        "# nightly SALT_CRON_IDENTIFIER:backup\n5 1 * * * /usr/bin/backup --all\n"
        "@reboot echo hi\n#DISABLED#1 2 3 4 5 off\n"
    )
    table = cron.parse(text)
    assert table.jobs[0] == cron.CronJob(
        "/usr/bin/backup --all", ("5", "1", "*", "*", "*"), "backup", "nightly"
    )
    assert table.jobs[1].when == ("@reboot",)
    assert table.jobs[2].commented
    assert cron.parse(table.text()) == table
    assert table.text() == text


def test_cron_job_is_found_by_its_identifier() -> None:
    job = cron.job_of("new command", {"minute": 1}, identifier="id")
    table = cron.with_job(cron.Table(jobs=(cron.CronJob("old", identifier="id"),)), job)
    assert table.jobs == (job,)
    assert cron.without_job(table, "anything", "id").jobs == ()


@pytest.mark.parametrize("field", ["* *", "1\n* * * * * root", "$(x)"])
def test_cron_field_that_is_none_is_refused(field: str) -> None:
    with pytest.raises(UsageError):
        cron.job_of("x", {"minute": field})


def test_cron_command_of_two_lines_is_refused() -> None:
    with pytest.raises(UsageError):
        cron.job_of("x\n* * * * * y", {})


def test_accounts_are_read_below_a_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    known = accounts.read(str(tmp_path))
    assert known.users["joe"].groups == ("joe", "wheel")
    assert known.users["joe"].as_dict()["workphone"] == "2"
    assert known.groups["wheel"].members == ("joe", "root")


def test_useradd_gets_an_argument_vector() -> None:
    new = NewUser(uid=1001, gid="joe", groups=["a", "b"], home="/h", shell="/bin/sh", system=True)
    words = "useradd -s /bin/sh -u 1001 -g joe -G a,b -m -d /h -r joe"
    assert add_words("joe", new) == words.split()


@pytest.mark.parametrize("name", ["-u0", "a:b", "", "a b", "x\n"])
def test_name_that_a_tool_could_misread_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        accounts.checked_name(name)


def test_field_that_would_break_passwd_is_refused() -> None:
    with pytest.raises(UsageError):
        add_words("joe", NewUser(fullname="Joe:0:0"))


def test_shadow_numbers_may_be_empty() -> None:
    entry = shadow.parse_line("joe:!:19000:0:99999:7:::")
    assert (entry["max"], entry["expire"]) == (99999, -1)


def test_df_is_read_by_mount_point() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 10 5 5 50% /mnt/a b\n"
    )
    assert parse_df(text)["/mnt/a b"]["capacity"] == "50%"


def test_unknown_argument_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'cwd'"):
        take(RunOptions, {"cwdd": "/"}, "cmd.run")


def test_lists_and_mappings_come_in_several_shapes() -> None:
    assert listed("a, b") == ["a", "b"]
    assert mapped([{"a": 1}, {"b": 2}]) == {"a": 1, "b": 2}
    with pytest.raises(UsageError):
        mapped("a")


def test_group_lacks_only_what_differs() -> None:
    group = accounts.Group("g", 10, ("a", "b"))
    assert differences(group, Members(10, members=["b", "a"])) == {}
    assert differences(group, Members(11, addusers=["c", "a"], delusers=["b", "z"])) == {
        "gid": 11,
        "addusers": ["c"],
        "delusers": ["b"],
    }
    with pytest.raises(UsageError):
        differences(group, Members(members=["a"], addusers=["b"]))
