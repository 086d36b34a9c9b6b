from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from catena.cli.commands import run
from catena.core.errors import ConfigError


def check(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = run(["-c", str(folder), "config", "check"])
    return code, capsys.readouterr().err.replace(f"{folder}/", "").splitlines()


def test_config_check_names_the_drop_in_file_of_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "master").write_text("port: 4605\n")
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d" / "x.conf").write_text("prot: 1\n")
    code, said = check(tmp_path, capsys)
    assert code == 2
    assert said == ["master.d/x.conf:1: unknown setting 'prot'; did you mean 'port'?"]


def test_config_check_warns_about_missing_files_without_failing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "master").write_text(
        f"file_roots: {{base: [{tmp_path}, /nosuch]}}\npillar_roots: {{}}\n"
        "reactor: [{'a/b': [/nosuch.sls, 'salt://r.sls']}]\n"
    )
    code, said = check(tmp_path, capsys)
    assert code == 0
    assert said == [
        "master: file_roots: base: there is no folder /nosuch",
        "master: reactor: a/b: there is no file /nosuch.sls",
        "master: ok",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("master", "nodegroups: {a: 'G@os:x and'}", "nodegroups: a: malformed compound target"),
        ("master", "reactor: [{a: b, c: d}]", "reactor: each item is one `glob: files`"),
        ("minion", "id: ../x", "id: '../x' is not a minion id"),
        ("minion", "master: master.example.org", "master: master.example.org is an example name"),
        ("minion", "master: <address>", "master: '<address>' is a placeholder"),
        ("minion", "enrol_token: CHANGE_ME", "enrol_token: 'CHANGE_ME' is a placeholder"),
        ("master", "database: '{{ db }}'", "database: '{{ db }}' is a placeholder"),
        ("minion", "machine_id: a b", "machine_id: 'a b' is not a machine id"),
        ("minion", "master: MASTER", "master: 'MASTER' is a placeholder"),
        ("minion", "master: your-master", "master: 'your-master' is a placeholder"),
        ("minion", "master: YOUR_MASTER_IP", "master: 'YOUR_MASTER_IP' is a placeholder"),
        ("minion", "master: master.<domain>", "master: '<domain>' is a placeholder"),
        ("minion", "master: 'http://boss.invalid:4'", "master: boss.invalid is an example name"),
        ("minion", "id: MINION_ID", "id: 'MINION_ID' is a placeholder"),
        ("minion", "enrol_token: TOKEN", "enrol_token: 'TOKEN' is a placeholder"),
        ("minion", "enrol_token: …", "enrol_token: '…' is a placeholder"),
        ("minion", "machine_id: put-id-here", "machine_id: 'put-id-here' is a placeholder"),
        ("minion", "user: '${USER}'", "user: '${USER}' is a placeholder"),
        ("master", "interface: ADDRESS", "interface: 'ADDRESS' is a placeholder"),
        (
            "master",
            "database: 'postgresql://c:secret@db.example.org/c'",
            "database: db.example.org is an example name",
        ),
        ("minion", "master_finger: FINGERPRINT", "master_finger: 'FINGERPRINT' is not a fing"),
        ("minion", "master_finger: 'aa:zz'", "master_finger: 'aa:zz' is not a fingerprint: 64"),
    ],
)
def test_config_check_refuses_what_a_daemon_refuses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(f"{text}\n")
    code, lines = check(tmp_path, capsys)
    assert code == 2
    texts = [line.replace(f"{name}:1: ", f"{name}: ") for line in lines]
    assert any(text.startswith(f"{name}: {said}") for text in texts), lines
    assert f"{name}: ok" not in lines


def test_minion_without_a_configuration_file_does_not_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["-c", str(tmp_path), "minion"]) == 2
    assert "there is no such file; it must at least set `master:`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "master: master",
        "master: boss.corp\nid: WEB1",
        "master: 192.0.2.7\nid: example1.corp",
        "master: dedi1.your-server.de\nenrol_token: ABCDEF",
        "master: salt\nreboot_command: [sh, -c, 'reboot ${ARGS}']",
    ],
)
def test_config_check_accepts_values_that_resemble_placeholders(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "minion").write_text(f"{text}\n")
    assert check(tmp_path, capsys) == (0, ["minion: ok"])


def test_config_check_warns_about_an_example_id_without_failing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "minion").write_text("master: boss.corp\nid: web1.example.org\n")
    code, said = check(tmp_path, capsys)
    assert code == 0
    assert said[0].startswith("minion: id: web1.example.org is an example name")


#: A setting in a code block (also commented out) or in a code span, with an example's value.
_PRINTED = re.compile(
    r"(?m)(?:^#?|`)(master|id|machine_id|enrol_token|master_finger|interface|database):"
    r" ([^`\n#]+?)(?:`| *#.*$|$)"
)
#: Names of hosts in the tutorial, which are valid as they are printed, and defaults.
_REAL = {"id: web1", "id: web2", "interface: 0.0.0.0", "master_finger: ''"}


def _printed_settings() -> list[str]:
    top = Path(__file__).parents[3]
    pages = [top / "README.md", top / "docs/tutorial.md", *(top / "docs/howto").glob("*.md")]
    texts = [page.read_text() for page in (*pages, *(top / "packaging/config").iterdir())]
    found = {f"{name}: {value}" for text in texts for name, value in _PRINTED.findall(text)}
    return sorted(found - _REAL)


@pytest.mark.parametrize("line", _printed_settings())
def test_config_check_finds_an_example_of_the_docs_that_was_copied(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    name = "master" if line.startswith(("interface", "database")) else "minion"
    (tmp_path / name).write_text(f"{line}\n")
    said = check(tmp_path, capsys)[1]
    setting = line.split(":")[0]
    assert any(f": {setting}: " in text for text in said), said


def test_master_logs_placeholders_at_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logged: list[str] = []

    def started(*_: object, warnings: Sequence[str], **__: object) -> int:
        logged.extend(warnings)
        return 0

    monkeypatch.setattr("catena.master.main.run", started)
    (tmp_path / "master").write_text("interface: ADDRESS\n")
    assert run(["-c", str(tmp_path), "master"]) == 0
    assert logged[0].startswith("interface: 'ADDRESS' is a placeholder")


def test_minion_prints_placeholders_at_its_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stop(*_: object) -> None:
        raise ConfigError("far enough")

    monkeypatch.setattr("catena.minion.launch.become", stop)
    (tmp_path / "minion").write_text("master: MASTER\nid: web1.example.org\n")
    assert run(["-c", str(tmp_path), "minion"]) == 2
    said = capsys.readouterr().err
    assert "master: 'MASTER' is a placeholder" in said
    assert "id: web1.example.org is an example name" in said
