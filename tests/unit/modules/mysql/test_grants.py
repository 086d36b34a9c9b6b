"""How grants are read and written, without a server."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.modules.mysql import grants
from catena.modules.mysql.users import native_hash


@pytest.mark.parametrize(
    ("line", "privileges", "target", "option"),
    [
        ("GRANT USAGE ON *.* TO `a`@`b` IDENTIFIED BY PASSWORD '*X'", {"USAGE"}, "*.*", False),
        (
            "GRANT SELECT (`a`, `on to`), DROP ON `x ON y`.* TO `u`@`%` WITH GRANT OPTION",
            {"SELECT (`a`, `on to`)", "DROP"},
            "`x ON y`.*",
            True,
        ),
        (
            "GRANT EXECUTE ON PROCEDURE `d`.`p``q` TO 'it''s TO'@'h'",
            {"EXECUTE"},
            "PROCEDURE `d`.`p``q`",
            False,
        ),
    ],
)
def test_line_of_a_server_is_read(
    line: str, privileges: set[str], target: str, option: bool
) -> None:
    found = grants.parsed(line)
    assert found is not None
    assert (set(found.privileges), found.target, found.option) == (privileges, target, option)


@pytest.mark.parametrize("line", ["", "GRANT `role` TO `u`@`h`", "SET DEFAULT ROLE r FOR u"])
def test_line_of_another_form_is_ignored(line: str) -> None:
    assert grants.parsed(line) is None


def test_privileges_have_one_form() -> None:
    found = grants.privileges("select , Insert(b,a), all")
    assert found == {"SELECT", "INSERT (`a`, `b`)", "ALL PRIVILEGES"}
    assert grants.privileges(["BINLOG MONITOR"]) == {"REPLICATION CLIENT"}
    for text in ("", "SELECT--", "SELECT (a) (b)", "1"):
        with pytest.raises(UsageError):
            grants.privileges(text)


@pytest.mark.parametrize(
    ("database", "escape", "target"),
    [
        ("a_b.*", True, r"`a\_b`.*"),
        ("a_b.*", False, "`a_b`.*"),
        ("`a``b`.t", True, "`a``b`.`t`"),
        ("*.*", True, "*.*"),
        ("procedure a.b", True, "PROCEDURE `a`.`b`"),
        ("table a_b.c", True, "`a_b`.`c`"),
        ("a.* TO x; --", True, "`a`.`* TO x; --`"),
    ],
)
def test_object_is_quoted(database: str, escape: bool, target: str) -> None:
    assert grants.target(database, escape) == target


def test_stored_form_is_that_of_the_server() -> None:
    assert native_hash("password") == "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
    assert native_hash("") == ""
