"""docker_container, docker_image, docker_network and docker_volume with podman, as root.

Images and containers lie below the test's folder. The image has only busybox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.docker.options import creation
from catena.modules.shared import programs
from catena.modules.shared.command.run import run
from catena.states import docker_container, docker_image, docker_network, docker_volume
from tests.support.debian_roots import require

CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
SLEEP: dict[str, Any] = {"image": "localhost/bb:1", "command": "/bin/sleep 1000",
                         "network_mode": "none"}  # fmt: skip


def podman(*words: str) -> str:
    ran = subprocess.run(
        ["podman", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def archive(folder: Path, name: str, text: str = "") -> Path:
    """Make an archive of a root that has busybox, a shell and a file."""
    root = folder / name
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    for tool in ("sh", "sleep", "cat", "env"):
        (root / "bin" / tool).symlink_to("busybox")
    (root / "text").write_text(text)
    target = folder / f"{name}.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(target), "."], check=True, timeout=60)
    return target


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    missing = [name for name in ("podman", "runc", "busybox") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        require(f"needs root and {', '.join(missing) or 'podman'}")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONTAINERS)
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
        patch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
        podman("import", str(archive(folder, "first")), "localhost/bb:1")
        try:
            podman("run", "--rm", "--network", "none", "localhost/bb:1", "/bin/sh", "-c", ":")
        except AssertionError as problem:
            pytest.skip(f"podman can't run a container here: {str(problem)[:200]}")
        yield folder
        podman("rm", "--all", "--force", "--time", "0")
        podman("rmi", "--all", "--force")


@pytest.fixture
def docker(context: Context, storage: Path) -> Iterator[Context]:
    yield context.with_(opts={**context.opts, "docker.command": "podman"})
    podman("rm", "--all", "--force", "--time", "0")


def dry(context: Context) -> Context:
    return context.with_(test=True)


def test_container_runs_once(docker: Context) -> None:
    look = dry(docker)
    with look.state_guard("built in"):
        found = docker_container.running(look, "web", **SLEEP)
    assert found.comment == "Container 'web' would be created. Container would be started."
    first = docker_container.running(docker, "web", **SLEEP)
    assert first.result is True, first.comment
    assert first.changes["state"] == {"old": None, "new": "running"}
    assert first.changes["container_id"]["added"] == podman("ps", "-q", "--no-trunc")
    again = docker_container.running(docker, "web", **SLEEP)
    assert (again.result, again.changes) == (True, {})
    with look.state_guard("built in"):
        assert docker_container.running(look, "web", **SLEEP).result is True


def test_changed_argument_replaces_the_container(docker: Context) -> None:
    first = docker_container.running(docker, "web", **SLEEP)
    other = {**SLEEP, "environment": [{"COLOUR": "blue"}], "shutdown_timeout": 0}
    with dry(docker).state_guard("built in"):
        assert "would be replaced" in docker_container.running(dry(docker), "web", **other).comment
    second = docker_container.running(docker, "web", **other)
    assert second.result is True, second.comment
    assert second.changes["container_id"]["removed"] == [first.changes["container_id"]["added"]]
    assert "COLOUR=blue" in docker.call("docker.run", "web", ["/bin/env"])
    assert docker_container.running(docker, "web", **other).changes == {}
    assert podman("ps", "-aq").count("\n") == 0


def test_changed_image_replaces_the_container(docker: Context, storage: Path) -> None:
    docker_container.running(docker, "web", **SLEEP)
    podman("import", str(archive(storage, "second", "new")), "localhost/bb:1")
    changed = docker_container.running(docker, "web", shutdown_timeout=0, **SLEEP)
    assert "Container has a new image" in changed.comment
    assert docker.call("docker.run", "web", "cat /text") == "new"
    assert docker_container.running(docker, "web", shutdown_timeout=0, **SLEEP).changes == {}


def test_failed_replacement_keeps_the_old_container(docker: Context) -> None:
    docker_container.running(docker, "web", **SLEEP)
    wrong = docker_container.running(docker, "web", **SLEEP, mem_limit="nonsense")
    assert wrong.result is False
    assert docker.call("docker.state", "web") == "running"
    assert podman("ps", "-aq").count("\n") == 0


def test_password_of_the_environment_is_no_argument(
    docker: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noting(context: Context, words: list[str], *rest: Any) -> Any:
        seen.extend(words)
        return run(context, words, *rest)

    monkeypatch.setattr(programs, "run", noting)
    secret: dict[str, Any] = {"environment": {"PASSWORD": "hush-hush"}}
    found = docker_container.running(docker, "web", **SLEEP, **secret)
    assert "hush-hush" in docker.call("docker.run", "web", "env")
    assert not [word for word in seen if "hush-hush" in word]
    assert "hush-hush" not in f"{found}"
    several = docker_container.running(docker, "web", **SLEEP, env={"PASSWORD": "hush\nhush"})
    assert (several.result, "hush" in several.comment) == (False, False)


def test_container_is_stopped_and_removed_once(docker: Context) -> None:
    docker_container.running(docker, "web", **SLEEP)
    refused = docker_container.absent(docker, "web")
    assert refused.comment == "Container is running, set force to True to forcibly remove it"
    with dry(docker).state_guard("built in"):
        assert docker_container.stopped(dry(docker), "web").result is None
        assert docker_container.absent(dry(docker), "web", force=True).result is None
    stopped = docker_container.stopped(docker, "web", shutdown_timeout=1)
    assert stopped.changes["web"]["state"] == {"old": "running", "new": "stopped"}
    assert docker_container.stopped(docker, "web").comment == "Container 'web' is not running"
    again = docker_container.running(docker, "web", **SLEEP)
    assert again.changes == {"state": {"old": "stopped", "new": "running"}}
    removed = docker_container.absent(docker, "web", force=True)
    assert removed.comment == "Forcibly removed container 'web'"
    assert docker_container.absent(docker, "web").comment == "Container 'web' does not exist"
    assert "absent" in docker_container.stopped(docker, "web").comment
    assert docker_container.stopped(docker, "web", error_on_absent=False).result is True


def test_watch_replaces_the_container_or_sends_a_signal(docker: Context) -> None:
    docker_container.running(docker, "web", **SLEEP)
    signalled = docker_container.mod_watch(docker, "web", watch_action="SIGHUP", **SLEEP)
    assert signalled.changes["signal"] == "SIGHUP"
    replaced = docker_container.mod_watch(docker, "web", shutdown_timeout=0, **SLEEP)
    assert "Replaced container 'web'" in replaced.comment


def test_image_is_loaded_and_removed_once(docker: Context, storage: Path) -> None:
    saved = storage / "saved.tar"
    docker.call("docker.save", "localhost/bb:1", str(saved), overwrite=True)
    given: dict[str, Any] = {"tag": "2", "load": str(saved)}
    with dry(docker).state_guard("built in"):
        assert docker_image.present(dry(docker), "localhost/own", **given).result is None
    loaded = docker_image.present(docker, "localhost/own", **given)
    assert loaded.result is True, loaded.comment
    assert loaded.changes
    assert docker_image.present(docker, "localhost/own", **given).changes == {}
    assert "localhost/own:2" in docker.call("docker.list_tags")
    with dry(docker).state_guard("built in"):
        assert docker_image.absent(dry(docker), "localhost/own:2").result is None
    assert docker_image.absent(docker, "localhost/own:2").changes["Tags"] == ["localhost/own:2"]
    assert docker_image.absent(docker, "localhost/own:2").changes == {}
    assert docker.call("docker.image_exists", "localhost/bb:1")


def test_image_is_built_of_a_folder(docker: Context, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM localhost/bb:1\nCOPY note /note\n")
    (tmp_path / "note").write_text("noted\n")
    given: dict[str, Any] = {"tag": "1", "build": str(tmp_path)}
    built = docker_image.present(docker, "localhost/built", **given)
    assert built.result is True, built.comment
    assert docker_image.present(docker, "localhost/built", **given).changes == {}
    assert docker.call("docker.inspect_image", "localhost/built:1")["Id"].endswith(
        docker.call("docker.resolve_image_id", "localhost/built:1")
    )


def test_image_that_can_not_be_pulled_fails(docker: Context) -> None:
    found = docker_image.present(docker, "localhost:1/none", tag="x")
    assert found.result is False
    assert "pulling localhost:1/none:x" in found.comment


def test_network_is_created_and_replaced_once(docker: Context) -> None:
    given: dict[str, Any] = {"subnet": "10.123.4.0/24", "gateway": "10.123.4.1", "internal": True,
                             "labels": {"a": "b"}}  # fmt: skip
    with dry(docker).state_guard("built in"):
        assert docker_network.present(dry(docker), "own", **given).result is None
    try:
        made = docker_network.present(docker, "own", **given)
        assert made.changes == {"created": True}, made.comment
        assert docker_network.present(docker, "own", **given).changes == {}
        other = {**given, "subnet": "10.123.5.0/24", "gateway": "10.123.5.1"}
        with dry(docker).state_guard("built in"):
            assert docker_network.present(dry(docker), "own", **other).result is None
        replaced = docker_network.present(docker, "own", **other)
        assert replaced.changes["own"]["subnet"]["new"] == "10.123.5.0/24", replaced.comment
        assert docker_network.present(docker, "own", **other).changes == {}
    finally:
        gone = docker_network.absent(docker, "own")
    assert gone.changes == {"removed": True}
    assert docker_network.absent(docker, "own").changes == {}


def test_volume_comes_and_goes_once(docker: Context) -> None:
    with dry(docker).state_guard("built in"):
        assert docker_volume.present(dry(docker), "data").result is None
    assert docker_volume.present(docker, "data").changes == {"created": True}
    assert docker_volume.present(docker, "data").changes == {}
    refused = docker_volume.present(docker, "data", driver="other")
    assert "does not match specified driver" in refused.comment
    with dry(docker).state_guard("built in"):
        assert docker_volume.absent(dry(docker), "data").result is None
    assert docker_volume.absent(docker, "data").changes == {"removed": True}
    assert docker_volume.absent(docker, "data").changes == {}


def test_functions_list_what_is_there(docker: Context) -> None:
    made = docker.call("docker.create", "localhost/bb:1", name="web", labels={"a": "b"},
                       command=["/bin/sleep", "9"], network_mode="none")  # fmt: skip
    assert docker.call("docker.ps") == {}
    found = docker.call("docker.ps", True)[made["Id"]]
    assert (found["Names"], found["State"], found["Labels"]["a"]) == (["web"], "stopped", "b")
    assert docker.call("docker.names_of", "a=b") == ["web"]
    assert docker.call("docker.version")["Program"] == "podman"
    assert docker.call("docker.rm", "web") == [made["Id"]]
    with pytest.raises(CommandExecutionError, match="podman failed"):
        docker.call("docker.inspect_container", "web")
    with pytest.raises(UsageError, match="name of a container"):
        docker.call("docker.start", "--help")
    wrong = docker.with_(opts={**docker.opts, "docker.command": "dokcer"})
    with pytest.raises(UsageError, match="did you mean 'docker'"):
        wrong.call("docker.ps")


def test_login_passes_the_password_on_standard_input(
    docker: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def need(context: Context, words: list[str], package: str, **options: Any) -> str:
        seen.append((words, options["stdin"]))
        return ""

    monkeypatch.setattr(programs, "need", need)
    accounts = {"registry.example": {"username": "me", "password": "hush"}, "hub": {}}
    here = docker.with_(pillar={"docker-registries": accounts})
    assert here.call("docker.login")["Results"] == {"registry.example": True, "hub": False}
    words = ["podman", "login", "--username", "me", "--password-stdin", "registry.example"]
    assert seen == [(words, "hush\n")]


def test_digest_does_not_depend_on_the_spelling() -> None:
    left = creation({"cmd": "sleep 1", "env": ["A=1"], "volume": "/a:/b,/c:/d"})
    right = creation(
        {"command": ["sleep", "1"], "environment": {"A": 1}, "volumes": [{"/a": "/b"}, "/c:/d"]}
    )
    assert left.digest() == right.digest()
    assert left.digest() != creation({"cmd": "sleep 2"}).digest()
