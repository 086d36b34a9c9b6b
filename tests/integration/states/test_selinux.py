"""selinux.* with the policy of a Debian root; the kernel of this host needs no SELinux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from tests.support.debian_roots import Root, overlay
from tests.support.mount_spaces import inside, needs_mounts

pytestmark = [
    needs_mounts,
    pytest.mark.container,
    pytest.mark.roots("bookworm", "bookworm-selinux"),
]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with overlay(tmp_path / "root", packages="selinux") as made:
        yield made


class Caller:
    """Applies states of SELinux and keeps what people see of them."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def __call__(self, fun: str, *args: Any, test: bool = False, **more: Any) -> tuple[Any, ...]:
        state = self.context.states[f"selinux.{fun}"]
        found: StateResult = state.call(self.context.with_(test=test), *args, **more)
        return found.result, dict(found.changes), found.comment


@pytest.fixture
def call(context: Context) -> Caller:
    return Caller(context)


def test_rule_for_files_is_added_and_removed_once(call: Caller, root: Root) -> None:
    # Each change compiles the policy again, which takes seconds.
    def work() -> list[Any]:
        name, kind = "/srv/web(/.*)?", "httpd_sys_content_t"
        return [
            call("fcontext_policy_present", name, kind, test=True),
            *(call("fcontext_policy_present", name, kind) for _ in range(2)),
            *(call("fcontext_policy_absent", name, test=test) for test in (True, False, False)),
            call("port_policy_present", "tcp/22", "ssh_port_t"),
            call("port_policy_present", "tcp/22", "http_port_t", test=True),
            call("boolean", "x", False, booleans=["httpd_enable_cgi"], persist=True),
            call("boolean", "httpd_enable_cgi", True, persist=True, test=True),
            call("module", "zabbix", "enabled"),
            call("module", "zabbix", "disabled", test=True),
        ]

    found = inside(root.path, work)
    changes = {
        "old": {},
        "new": {"/srv/web(/.*)?": {"filetype": "all files", "sel_type": "httpd_sys_content_t"}},
    }
    assert [row[0] for row in found] == [None, True, True] * 2 + [True, None] * 3
    assert found[0][1] == found[1][1] == changes
    assert found[2][1] == {}
    assert found[2][2].endswith('filetype "all files" and sel_type "httpd_sys_content_t".')
    assert found[4][1]["old"]["/srv/web(/.*)?"]["sel_type"] == "httpd_sys_content_t"
    assert found[5][1] == {}
    assert found[8][2] == "The following booleans were in the correct state: httpd_enable_cgi"
    assert found[9][1] == {"httpd_enable_cgi": {"old": ("off", "off"), "new": ("on", "on")}}
    assert found[10][2] == "Module zabbix is in the desired state"
