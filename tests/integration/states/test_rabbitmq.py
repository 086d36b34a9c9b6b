"""The states of RabbitMQ against a real node of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.types import StateResult
from catena.modules import rabbitmq
from catena.modules.shared.command import process
from tests.support.rabbitmq_node import node

# Each call of rabbitmqctl starts a virtual machine of its own, which takes seconds.
pytestmark = pytest.mark.slow
#: A name that is options, a shell's command or JSON if it is not quoted.
HOSTILE = "--x $(touch /tmp/catena-pwned) `id` \"q\" \\ 's' größe"


@pytest.fixture
def rabbit(context: Context, monkeypatch: pytest.MonkeyPatch) -> Context:
    for key, value in node().environment.items():
        monkeypatch.setenv(key, value)
    return context


def _state(
    context: Context, fun: str, name: str, /, *, test: bool = False, **arguments: Any
) -> StateResult:
    context = context.with_(test=test)
    plugin = context.states[fun]
    with context.state_guard(plugin.origin):
        found: StateResult = plugin.call(context, name, **arguments)
    return found


def test_virtual_host_user_and_policy_are_made_and_removed_once(rabbit: Context) -> None:
    name = HOSTILE
    user: dict[str, Any] = {
        "password": "Tr0ub4'dor \"$(id)",
        "tags": ["monitoring", "a b"],
        "perms": [{name: [".*", '^a"$', ""]}],
    }
    policy: dict[str, Any] = {
        "pattern": '^a"b',
        "definition": '{"max-length": 5}',
        "vhost": name,
        "priority": 3,
    }
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("rabbitmq_vhost.present", {}),
        ("rabbitmq_user.present", user),
        ("rabbitmq_policy.present", policy),
    )
    with rabbitmq.remembering(rabbit):
        for change in (True, False):
            found = [_state(rabbit, fun, name, **words) for fun, words in calls]
            assert [(one.result, bool(one.changes)) for one in found] == [(True, change)] * 3
    assert [one.comment for one in found] == [
        f"Virtual Host '{name}' already exists.",
        f"'{name}' is already in the desired state.",
        f"Policy {name} {name} is already present",
    ]
    assert rabbit.call("rabbitmq.list_users")[name] == ["monitoring", "a b"]
    assert rabbit.call("rabbitmq.list_permissions", name)[name]["configure"] == ".*"
    assert not Path("/tmp/catena-pwned").exists()

    changed = _state(rabbit, "rabbitmq_user.present", name, **{**user, "password": "other"})
    assert changed.changes == {"password": {"old": "", "new": "Set password."}}
    changed = _state(rabbit, "rabbitmq_policy.present", name, **{**policy, "pattern": "x"})
    assert changed.changes["new"] == ["Pattern"]
    absent: list[tuple[str, dict[str, Any]]] = [
        ("rabbitmq_policy.absent", {"vhost": name}),
        ("rabbitmq_user.absent", {}),
        ("rabbitmq_vhost.absent", {}),
    ]
    with rabbitmq.remembering(rabbit):
        gone = [_state(rabbit, fun, name, **words) for fun, words in absent]
        assert [(one.result, bool(one.changes)) for one in gone] == [(True, True)] * 3, gone
        again = [_state(rabbit, fun, name, **words) for fun, words in absent[1:]]
        assert [(one.result, one.changes) for one in again] == [(True, {})] * 2


def test_test_mode_reports_and_changes_nothing(rabbit: Context) -> None:
    found = _state(rabbit, "rabbitmq_vhost.present", "v1", test=True)
    assert (found.result, found.comment) == (None, "Virtual Host 'v1' will be created.")
    found = _state(rabbit, "rabbitmq_user.present", "u1", test=True, password="x")
    assert (found.result, found.comment) == (None, "User 'u1' is set to be created.")
    found = _state(rabbit, "rabbitmq_user.present", "guest", test=True, password="x", tags="a")
    assert (found.result, found.comment) == (None, "Configuration for 'guest' will change.")
    assert "x" not in str(found.changes["password"]["new"])
    assert rabbit.call("rabbitmq.check_password", "guest", "guest")
    assert rabbit.call("rabbitmq.list_users") == {"guest": ["administrator"]}


def test_plugin_is_enabled_and_disabled_once(rabbit: Context) -> None:
    name = "rabbitmq_shovel"
    found = _state(rabbit, "rabbitmq_plugin.enabled", name, test=True)
    assert (found.result, found.comment) == (None, f"Plugin '{name}' is set to be enabled.")
    for change in (True, False):
        found = _state(rabbit, "rabbitmq_plugin.enabled", name)
        assert (found.result, bool(found.changes)) == (True, change), found
    assert rabbit.call("rabbitmq.list_enabled_plugins") == [name]
    for change in (True, False):
        found = _state(rabbit, "rabbitmq_plugin.disabled", name)
        assert (found.result, bool(found.changes)) == (True, change), found
    found = _state(rabbit, "rabbitmq_plugin.enabled", "none")
    assert found.comment == "Error: this host has no plugin 'none' of RabbitMQ"


def test_no_password_is_in_arguments_or_results(
    rabbit: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    start = process._start

    def started(command: process.Command) -> Any:
        commands.append(command.argv)
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    told = [
        _state(rabbit, "rabbitmq_user.present", "secretive", password="Tr0ub4dor"),
        _state(rabbit, "rabbitmq_user.present", "secretive", password="Tr0ub4dor2"),
        _state(rabbit, "rabbitmq_user.present", "secretive", password="Tr0ub\n4dor"),
        _state(rabbit, "rabbitmq_user.absent", "secretive"),
    ]
    assert [one.result for one in told] == [True, True, False, True]
    assert "Tr0ub" not in repr(told) + repr(commands)
    assert len(commands) >= 6


def test_unchanged_states_of_one_sequence_ask_once(
    rabbit: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = rabbitmq._look

    def look(*given: Any) -> Any:
        asked.append(given)
        return real(*given)

    monkeypatch.setattr(rabbitmq, "_look", look)
    with rabbitmq.remembering(rabbit):
        for name in ("none1", "none2", "none3"):
            assert _state(rabbit, "rabbitmq_vhost.absent", name).changes == {}
    assert len(asked) == 1


def test_node_that_is_down_is_named_with_a_hint(
    rabbit: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITMQ_NODENAME", "none@localhost")
    found = _state(rabbit, "rabbitmq_vhost.present", "x")
    assert found.result is False
    assert found.comment.startswith("Error: RabbitMQ does not answer: unable to perform")
    assert "retry: {attempts: 5, interval: 10}" in found.comment
    found = _state(rabbit, "rabbitmq_vhost.present", "x", test=True)
    assert found.result is None
    assert found.comment.startswith("Virtual Host 'x' will be created. This could not")


def test_missing_program_is_named_with_its_package(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rabbitmq, "_FOLDER", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    found = _state(context, "rabbitmq_vhost.present", "x")
    assert found.result is False
    assert "install the package rabbitmq-server" in found.comment


@pytest.mark.parametrize(
    ("fun", "words", "told"),
    [
        ("rabbitmq_policy.present", {"pattern": "a", "definition": "{x"}, "this is no JSON"),
        ("rabbitmq_policy.present", {"pattern": "a", "definition": "[]"}, "a JSON object"),
        ("rabbitmq_user.present", {"perms": [{"/": [".*"]}]}, "needs a list of configure"),
        ("rabbitmq_user.present", {"perms": [".*"]}, "mapping"),
    ],
)
def test_bad_argument_fails(context: Context, fun: str, words: dict[str, Any], told: str) -> None:
    found = _state(context, fun, "x", **words)
    assert found.result is False
    assert told in found.comment


def test_impossible_name_is_refused() -> None:
    for name in ("", "a\0b", "x" * 256):
        with pytest.raises(UsageError, match="1 to 255 characters"):
            rabbitmq.checked(name)
