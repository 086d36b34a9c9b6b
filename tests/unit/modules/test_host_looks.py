"""Functions that look at this host or keep small things; expected values are those of Salt."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.fileserver.roots import RootsClient
from catena.modules import mount
from catena.runtime.session import execution_index


@pytest.fixture
def context(tmp_path: Path) -> Context:
    root = tmp_path / "root"
    root.mkdir()
    (root / "d.yaml").write_text("a: [1, é]\n")
    (root / "map.jinja").write_text("{% set x = {'k': 1} %}")
    (tmp_path / "cache").mkdir()
    functions = Registry("function", execution_index(), FunctionMark)
    host = cast(Any, SimpleNamespace(conf_dir=tmp_path, cache_dir=tmp_path / "cache"))
    opts = {"id": "m1", "env1": {"driver": "env"}, "vault1": {"driver": "vault"}}
    states = Registry("state", {}, StateMark)
    return Context(opts, {"id": "m1"}, {}, functions, states, RootsClient({"base": [root]}), host)


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        ("random.seed", [10, "x"], 5),
        ("random.seed", [1000, "oracle-minion"], 826),
        ("random.sample", [[1, 2, 3, 4], 2, "s"], [3, 4]),
        ("random.shuffle", [[1, 2, 3, 4], "s"], [3, 4, 1, 2]),
        ("hashutil.base64_b64decode", ["/w=="], b"\xff"),
        ("hashutil.base64_b64decode", ["w6k="], "é"),
        (
            "hashutil.hmac_compute",
            ["get salted", "shared secret"],
            "78159ff5bb2d5e0f8d88fe403b0a690791ccbd989830fcc433d5b960c9bf0264",
        ),
        ("hashutil.github_signature", ["x", "y", "sha1=z"], False),
        ("hashutil.github_signature", ["x", "y", "sha1=ä"], False),
        ("salt_version.get_release_number", ["Sodium"], "3001"),
        ("salt_version.greater_than", ["Phosphorus"], True),
        ("salt_version.equal", ["argon"], True),
        ("salt_version.less_than", ["nope"], False),
        ("jinja.import_yaml", ["d.yaml"], {"a": [1, "é"]}),
        ("jinja.load_map", ["map.jinja", "x"], {"k": 1}),
        ("sdb.get", ["plain"], "plain"),
        ("sdb.get", ["sdb://nope/x"], "sdb://nope/x"),
        ("sdb.get", ["sdb://env1/PATH"], os.environ["PATH"]),
        ("dnsutil.check_ip", ["10.0.0"], False),
        (
            "dnsutil.parse_hosts",
            ["", "127.0.0.1 a b # c\n::1 a\n"],
            {"127.0.0.1": ["a", "b"], "::1": ["a"]},
        ),
        ("kmod.is_loaded", ["no_such_module"], False),
        ("ps.pgrep", ["no such process"], None),
        ("mount.is_mounted", ["/proc"], True),
        ("mount.get_mount_from_path", ["/proc/1"], "/proc"),
        # Nobody can make a file in /proc.
        ("mount.fstab", ["/proc/none"], {}),
        ("sysctl.get", ["kernel.ostype"], "Linux"),
    ],
)
def test_function_returns_the_value_of_salt(
    context: Context, fun: str, args: list[Any], value: Any
) -> None:
    assert context.call(fun, *args) == value


@pytest.mark.parametrize(
    ("family", "name", "shown", "parsed"),
    [
        ("Debian", "bash:amd64", "bash", ("bash", "amd64")),
        ("Debian", "x:i386", "x:i386", ("x", "i386")),
        ("Debian", "x:all", "x", ("x", "all")),
        ("Debian", "x.noarch", "x.noarch", ("x.noarch", None)),
        ("RedHat", "x.noarch", "x", ("x", "noarch")),
        ("RedHat", "python3.11", "python3.11", ("python3.11", None)),
    ],
)
def test_architecture_is_distinguished_from_a_name(
    context: Context, family: str, name: str, shown: str, parsed: tuple[str, str | None]
) -> None:
    host = context.with_(grains={"os_family": family, "osarch": "amd64"})
    assert host.call("pkg.normalize_name", name) == shown
    assert host.call("pkg.parse_arch", name) == dict(zip(("name", "arch"), parsed, strict=True))


def test_store_keeps_values(context: Context) -> None:
    assert context.call("data.update", "k", 5) is True
    assert context.call("data.cas", "k", 7, 6) is False
    assert context.call("data.cas", "k", 7, 5) is True
    assert context.call("data.get", ["k", "no"], 0) == [7, 0]
    assert context.call("data.items") == {"k": 7}
    assert context.call("data.pop", "k") == 7
    assert context.call("data.pop", "k", "D") == "D"
    assert context.call("data.dump", "[1]") is False


def test_concurrent_updates_of_data_are_all_stored(context: Context) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: context.call("data.update", key, 1), "abcdefghijklmnop"))
    assert sorted(context.call("data.keys")) == list("abcdefghijklmnop")


def test_serial_grows_within_a_day(context: Context) -> None:
    first = context.call("dnsutil.serial", "z.example")
    assert context.call("dnsutil.serial", "z.example") == first
    assert int(context.call("dnsutil.serial", "z.example", True)) > int(first)


def test_fstab_is_read(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "fstab"
    file.write_text("# c\nUUID=1 /a\\040b ext4 rw,noatime 0 1\nnone swap swap sw\n")
    found = mount.fstab_(context, str(file))
    assert found["/a b"] == {
        "device": "UUID=1",
        "fstype": "ext4",
        "opts": ["rw", "noatime"],
        "dump": "0",
        "pass": "1",
    }


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("sdb.get", ["sdb://vault1/x"]),
        ("dig.A", ["-f/etc/passwd"]),
        ("sysctl.get", ["../../etc/passwd"]),
        ("jinja.load_map", ["map.jinja", "x }}"]),
        ("jinja.import_yaml", ["d.yaml' %}"]),
        ("http.query", ["file:///etc/passwd"]),
        ("ps.kill_pid", [-1, 0]),
        ("ps.kill_pid", [0, 0]),
    ],
)
def test_invalid_name_is_refused(context: Context, fun: str, args: list[Any]) -> None:
    with pytest.raises(UsageError):
        context.call(fun, *args)


def test_missing_program_is_named(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandExecutionError, match="dig is needed"):
        context.call("dig.A", "localhost")


class Server(BaseHTTPRequestHandler):
    def reply(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        told = f"{self.command} {self.path} {self.rfile.read(length).decode()}"
        told += f" {self.headers.get('X-T')} {self.headers.get('Authorization')}"
        kind, status = "text/plain", 200
        if self.path == "/json":
            told, kind = '{"a": [1]}', "application/json"
        elif self.path == "/404":
            told, status = "nf", 404
        elif self.path in ("/near", "/away"):
            told, status = "", 302
        elif self.path == "/odd":
            kind = "text/plain; charset=klingon"
        self.send_response(status)
        if status == 302:
            host = "127.0.0.1" if self.path == "/near" else "localhost"
            _, port = self.connection.getsockname()
            self.send_header("Location", f"http://{host}:{port}/x")
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(told.encode())

    do_GET = do_POST = reply  # noqa: N815  # the server's names

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("path", "options", "value"),
    [
        ("/x", {}, {"body": "GET /x  None None"}),
        ("/x", {"params": {"a": "1 2"}}, {"body": "GET /x?a=1+2  None None"}),
        ("/x", {"method": "POST", "data": "é"}, {"body": "POST /x é None None"}),
        ("/x", {"header_list": ["X-T: v"]}, {"body": "GET /x  v None"}),
        ("/x", {"username": "u", "password": "p"}, {"body": "GET /x  None Basic dTpw"}),
        ("/json", {"decode": True}, {"body": '{"a": [1]}', "dict": {"a": [1]}}),
        ("/json", {"status": True, "decode_body": False}, {"body": b'{"a": [1]}', "status": 200}),
        ("/404", {}, {"status": 404, "error": "HTTP 404: Not Found", "body": "nf"}),
        ("/404", {"raise_error": False}, {"body": "nf"}),
        ("/x", {"test": True}, {}),
        ("/odd", {}, {"body": "GET /odd  None None"}),
        ("/near", {"username": "u", "password": "p"}, {"body": "GET /x  None Basic dTpw"}),
        ("/away", {"username": "u", "password": "p"}, {"body": "GET /x  None None"}),
    ],
)
def test_web_server_is_asked(
    context: Context, url: str, path: str, options: dict[str, Any], value: Any
) -> None:
    assert context.call("http.query", url + path, **options) == value


def test_query_of_an_absent_server_returns_an_error(context: Context) -> None:
    found = context.call("http.query", "http://127.0.0.1:1/x", status=True)
    assert found == {"status": 0, "error": "[Errno 111] Connection refused"}


def test_wait_for_a_page_ends_at_its_limit(context: Context, url: str) -> None:
    asked = {"wait_for": 0, "request_interval": 0}
    assert "error" in context.call("http.wait_for_successful_query", url + "/404", **asked)
    assert "body" in context.call("http.wait_for_successful_query", url + "/x", **asked)


def test_web_page_is_fetched_as_a_file(context: Context, url: str) -> None:
    assert context.call("cp.get_url", f"{url}/x", None) == "GET /x  None None"
