"""Recorded behaviour of Salt 3008.5, run against catena's own command.

A case (a line of tests/cases/salt/<topic>.jsonl, see `tests.support.packs`) is staged in a fresh
folder, its steps are called, and what they answered and left behind is compared with its
`expected.json`. Each call happens in a child
forked from this warm process, through the same entry point as the installed command.

What is compared is what people build on: order and results of states, whether they changed
something, why one did not run, exit status, values of functions, and the files. Wording is free
but for the short phrases that tools look for.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import logging
import os
import pkgutil
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from catena.cli import commands
from catena.core.patterns import lazy_pattern
from tests.support import packs

FOLDER = Path(__file__).parents[1] / "cases" / "salt"
_SECONDS = 60
#: Imported before the first fork: every call would otherwise import them for itself.
_WARM = (
    "catena.cli.call",
    "catena.fileserver.roots",
    "catena.minion.calls.local",
    "catena.modules",
    "catena.pillar.compile",
    "catena.renderers",
    "catena.runtime.functions",
    "catena.runtime.salt.names",
    "catena.states",
)
_GIT = {
    "GIT_AUTHOR_NAME": "o",
    "GIT_AUTHOR_EMAIL": "o@o",
    "GIT_COMMITTER_NAME": "o",
    "GIT_COMMITTER_EMAIL": "o@o",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
}
#: Why a state did or did not run, by the phrase in its comment; anything else ran.
_COMMENTS = (
    ("requisite_failed", r"One or more requisite failed"),
    ("requisite_not_found", r"The following requisites were not found"),
    ("requisite_not_found", r"Referenced state does not exist|Specified state '.*' was not found"),
    ("recursive_requisite", r"Recursive requisite"),
    ("onlyif_skipped", r"onlyif condition is false"),
    ("unless_skipped", r"unless condition is true"),
    ("creates_skipped", r"^(@SANDBOX@|@WORK@|/)\S* exists$|All files in creates exist"),
    ("onchanges_skipped", r"none of the onchanges reqs changed"),
    ("onfail_skipped", r"onfail req did not change"),
    ("prereq_skipped", r"No changes detected"),
    ("check_cmd_failed", r"check_cmd determined the state (failed|did not succeed)"),
    ("state_unavailable", r"State '.*' was not found in SLS"),
    ("exception", r"An exception occurred in this state"),
    ("failhard", r"failhard"),
)
#: What kept a run from starting, by the phrase in its text.
_ERRORS = (
    ("requisite_not_found", r"Referenced state does not exist"),
    ("requisite_not_list", r"needs to be formed as a list"),
    ("jinja_undefined", r"Jinja variable|is undefined"),
    ("jinja_syntax", r"Jinja syntax error"),
    ("jinja_error", r"Jinja error"),
    ("conflicting_id", r"Detected conflicting IDs"),
    ("duplicate_key", r"[Cc]onflicting ID"),
    (
        "yaml_error",
        r"failed: (while|found|did not|mapping values|block (sequence|mapping|collection)|could "
        r'not|expected)|in "<(unicode|byte) string>"|Unknown yaml',
    ),
    ("no_matching_sls", r"No matching sls found"),
    ("specified_sls_missing", r"Specified SLS .* (is not available|was not found)"),
    ("cannot_extend", r"Cannot extend ID"),
    ("recursive_requisite", r"[Rr]ecursive requisite"),
    ("too_many_functions", r"[Tt]oo many functions"),
    ("not_a_list", r"not formed as a list"),
    ("not_a_dict", r"not formed as a dict|is not a dictionary"),
    ("no_function", r'No function declared|does not have a function|Missing "fun"'),
    ("name_not_string", r"not formed as a string|is not a string|must be a string"),
    ("same_module_twice", r"multiple state declarations of the same type"),
    ("state_missing", r"was not found in SLS|is not available"),
    ("no_top", r"No states found for this minion|No Top file"),
    ("render_failed", r"Rendering SLS"),
    ("pillar_failed", r"Pillar failed to render"),
)
_ROW_FIELDS = ("result", "changed", "class", "id", "sls", "warnings")

Answer = dict[str, Any]
_NO_JSON = object()


@dataclass(frozen=True)
class Case:
    """One recorded case."""

    name: str
    files: packs.Files
    spec: Mapping[str, Any]
    expected: Mapping[str, Any]

    def steps(self) -> list[Mapping[str, Any]]:
        """Return what is called, and the shell lines between."""
        if "steps" in self.spec:
            return list(self.spec["steps"])
        step = {"function": self.spec.get("function", "state.apply")}
        return [step | {k: self.spec[k] for k in ("args", "kwargs", "compare") if k in self.spec}]


def names() -> list[str]:
    """Return the names of all cases, sorted."""
    return packs.names(FOLDER)


def load(name: str) -> Case:
    """Return one case."""
    files = packs.files(FOLDER, name)
    spec = yaml.safe_load(files["case.yaml"]) or {}
    return Case(name, files, spec, json.loads(files["expected.json"]))


class Stage:
    """A throw-away copy of a case, its placeholders filled in."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.work = Path(tempfile.mkdtemp(prefix="case-")).resolve()
        self.sandbox, self.conf = self.work / "sandbox", self.work / "conf"
        for name in ("sandbox", "conf", "states", "pillar", "home", "root"):
            (self.work / name).mkdir()
        self._copy_files()
        self._write_config()
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        own = {"SANDBOX": str(self.sandbox), "HOME": str(self.work / "home"), "TZ": "UTC"}
        # The shell is a grain, and what it says of a missing command was recorded.
        plain = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "SHELL": "/bin/bash"}
        self.env = {**kept, **_GIT, **own, **plain}
        if "setup.sh" in case.files:
            self.shell(case.files["setup.sh"].decode())

    def fill(self, text: str) -> str:
        """Put this stage's folders in."""
        return text.replace("@SANDBOX@", str(self.sandbox)).replace("@WORK@", str(self.work))

    def clean(self, text: str) -> str:
        """Take this stage's folders out."""
        return text.replace(str(self.sandbox), "@SANDBOX@").replace(str(self.work), "@WORK@")

    def shell(self, text: str) -> None:
        """Run a line of the case in the sandbox."""
        command = ["bash", "-euc", self.fill(text)]
        subprocess.run(
            command, cwd=self.sandbox, env=self.env, check=True, capture_output=True, timeout=60
        )

    def _copy_files(self) -> None:
        for path, data in self._case.files.items():
            folder, _, rest = path.partition("/")
            if not rest:
                continue  # it describes the case
            place = (self.sandbox if folder == "setup" else self.work / folder) / rest
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                data = self.fill(data.decode()).encode()
            except UnicodeDecodeError:
                pass  # no text, so it has no placeholders
            place.write_bytes(data)
            place.chmod(0o755 if data.startswith(b"#!/") else 0o644)

    def _write_config(self) -> None:
        config: dict[str, Any] = {"id": "oracle-minion", "file_client": "local"}
        config["root_dir"] = str(self.work / "root")
        for name in ("config.yaml", "grains.yaml"):
            if name in self._case.files:
                data = yaml.safe_load(self.fill(self._case.files[name].decode())) or {}
                config.update({"grains": data} if name == "grains.yaml" else data)
        (self.conf / "minion").write_text(yaml.safe_dump(config))

    def call(self, step: Mapping[str, Any]) -> Answer:
        """Call a step's function and return what it answered, in comparable form."""
        words = ["call", "--local", "--config-dir", str(self.conf), "--out", "json"]
        if self._case.spec.get("cli_roots", True):
            words += ["--file-root", str(self.work / "states")]
            words += ["--pillar-root", str(self.work / "pillar")]
        words += [self.fill(str(word)) for word in step.get("options", [])]
        words.append(step["function"])
        words += [self._word(value) for value in step.get("args", [])]
        words += [f"{k}={self._word(value)}" for k, value in (step.get("kwargs") or {}).items()]
        env = {k: self.fill(str(value)) for k, value in (step.get("env") or {}).items()}
        code, out, err = forked(words, {**self.env, **env}, self.work)
        return _answer(self.clean(out), self.clean(err), code)

    def _word(self, value: Any) -> str:
        return self.fill(value if isinstance(value, str) else json.dumps(value))

    def files(self) -> dict[str, dict[str, Any]]:
        """Return what lies in the sandbox."""
        ignored = [re.compile(pattern) for pattern in self._case.spec.get("files_ignore", [])]
        found = {}
        for path in _tree(self.sandbox, self.sandbox, ignored):
            found[str(path.relative_to(self.sandbox))] = self._entry(path)
        return found

    def _entry(self, path: Path) -> dict[str, Any]:
        status = path.lstat()
        entry: dict[str, Any] = {"mode": f"{stat.S_IMODE(status.st_mode):04o}"}
        if path.is_symlink():
            return {"type": "link", "target": self.clean(str(path.readlink()))}
        if path.is_dir():
            return {**entry, "type": "dir"}
        if not path.is_file():
            return {**entry, "type": "other"}
        data = path.read_bytes()
        try:
            text = self.clean(data.decode())
        except UnicodeDecodeError:
            text = "\0"
        if len(text) > 6000 or "\0" in text:
            return {**entry, "type": "file", "sha256": hashlib.sha256(data).hexdigest()}
        return {**entry, "type": "file", "content": text}

    def close(self) -> None:
        """Remove everything."""
        for folder, below, _ in os.walk(self.work):
            for name in below:
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(0o755)
        shutil.rmtree(self.work)


def _tree(root: Path, folder: Path, ignored: list[re.Pattern[str]]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if any(pattern.search(str(path.relative_to(root))) for pattern in ignored):
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _tree(root, path, ignored)


def forked(
    words: list[str],
    env: Mapping[str, str],
    folder: Path,
    constants: Mapping[str, Any] | None = None,
) -> tuple[int, str, str]:
    """Run the command with *words* in a child of this process; return code, stdout and stderr.

    *constants* (dotted name -> value) are changed in the child only.
    """
    _warm_up()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings():
            # The child runs nothing of this process's other threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _become(words, env, folder, (out.fileno(), err.fileno()), constants or {})
        _, status = os.waitpid(child, 0)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    return os.waitstatus_to_exitcode(status), texts[0], texts[1]


@cache
def _warm_up() -> None:
    for name in _WARM:
        module = importlib.import_module(name)
        for inner in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            importlib.import_module(inner.name)
    # Every call would otherwise compile its patterns for itself.
    kind = type(lazy_pattern(""))
    for pattern in [each for each in gc.get_objects() if isinstance(each, kind)]:
        for method in ("finditer", "findall", "fullmatch", "match", "search", "split", "sub"):
            getattr(pattern, method)


def _set(constants: Mapping[str, Any]) -> None:
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        owner = importlib.import_module(module)
        getattr(owner, constant)
        setattr(owner, constant, value)


def _become(
    words: list[str],
    env: Mapping[str, str],
    folder: Path,
    outputs: tuple[int, int],
    constants: Mapping[str, Any],
) -> None:
    """Be the installed command; never return."""
    code = 70
    try:
        # The collector would copy every page of the tests' process.
        gc.freeze()
        # No case loses power; under load each wait for the disk takes longer than the call.
        for name in ("fsync", "fdatasync"):
            setattr(os, name, lambda handle: None)
        _set(constants)
        # Those of the tests' own runner; the command has none, its warnings go to stderr.
        logging.root.handlers.clear()
        signal.alarm(_SECONDS)
        warnings.simplefilter("ignore")
        null = os.open(os.devnull, os.O_RDONLY)
        for number, handle in enumerate((null, *outputs)):
            os.dup2(handle, number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        os.environ.clear()
        os.environ.update(env)
        os.chdir(folder)
        code = commands.run(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the child shows it and ends, whatever it was
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _NO_JSON


def _answer(out: str, err: str, code: int) -> Answer:
    data = _json(out.strip())
    answer: Answer = {"rc_zero": code == 0, "stderr": err}
    if data is _NO_JSON:
        return {**answer, "kind": "fail"}
    if isinstance(data, dict) and list(data) == ["local"]:
        data = data["local"]
    if _is_rows(data):
        rows = sorted(data.items(), key=lambda pair: pair[1]["__run_num__"])
        return {**answer, "kind": "states", "states": [_row(tag, ret) for tag, ret in rows]}
    texts = isinstance(data, list) and data and all(isinstance(each, str) for each in data)
    if texts and code:
        errors = [{"class": _class(text, _ERRORS, "other"), "text": text} for text in data]
        return {**answer, "kind": "errors", "errors": errors}
    return {**answer, "kind": "data", "value": pruned(data, {"start_time", "duration"}, "__pub_")}


def _is_rows(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and bool(data)
        and all(isinstance(row, dict) and "__run_num__" in row for row in data.values())
    )


def _row(tag: str, ret: Mapping[str, Any]) -> Answer:
    comment = str(ret.get("comment"))
    return {
        "tag": tag,
        "result": ret.get("result"),
        "changed": bool(ret.get("changes")),
        "class": _class(comment, _COMMENTS, "ran"),
        "id": ret.get("__id__"),
        "sls": ret.get("__sls__"),
        "comment": comment.partition("Traceback (most recent call last)")[0],
        "changes": pruned(ret.get("changes"), {"pid"}),
        "warnings": bool(ret.get("warnings")),
    }


def _class(text: str, table: tuple[tuple[str, str], ...], default: str) -> str:
    return next((name for name, phrase in table if re.search(phrase, text, re.M)), default)


def pruned(value: Any, names: set[str], prefix: str = "") -> Any:
    """Return *value* without some keys at any depth."""
    if isinstance(value, dict):
        return {
            key: pruned(inner, names, prefix)
            for key, inner in value.items()
            if key not in names and not (prefix and key.startswith(prefix))
        }
    if isinstance(value, list):
        return [pruned(inner, names, prefix) for inner in value]
    return value


def differences(case: Case, kind: type[Stage] = Stage) -> list[str]:
    """Run *case* and return how it differs from what was recorded; empty when it does not."""
    stage = kind(case)
    found: list[str] = []
    number = 0
    try:
        for step in case.steps():
            if "shell" in step:
                stage.shell(step["shell"])
                continue
            wanted = case.expected["steps"][number]
            number += 1
            rules = step.get("compare") or case.spec.get("compare") or {}
            answer = stage.call(step)
            found += [f"step {number}: {text}" for text in _compared(wanted, answer, rules)]
        if case.spec.get("compare_files", True):
            modes = case.spec.get("compare_modes", True)
            found += _compared_files(case.expected["files"], stage.files(), modes)
    finally:
        stage.close()
    return found


def _compared(wanted: Answer, answer: Answer, rules: Mapping[str, Any]) -> Iterator[str]:
    if rules.get("rc", True) and wanted["rc_zero"] != answer["rc_zero"]:
        yield f"exit status zero: {answer['rc_zero']}"
    if wanted["kind"] != answer["kind"]:
        yield f"answer: {answer['kind']}, not {wanted['kind']}: {json.dumps(answer)[:600]}"
    elif wanted["kind"] == "states":
        yield from _compared_rows(wanted["states"], answer["states"], rules)
    elif wanted["kind"] == "errors":
        one, two = ([error["class"] for error in each["errors"]] for each in (wanted, answer))
        if one != two:
            yield f"errors: {two}, not {one}: {json.dumps(answer['errors'])[:600]}"
    elif wanted["kind"] == "data" and rules.get("value", True):
        yield from _compared_values(wanted["value"], answer["value"], rules)
    if rules.get("stderr") and not re.search(rules["stderr"], answer["stderr"]):
        yield f"stderr lacks /{rules['stderr']}/: {answer['stderr'][:600]}"


def _compared_rows(
    wanted: list[Answer], rows: list[Answer], rules: Mapping[str, Any]
) -> Iterator[str]:
    if rules.get("order", True) is False:
        wanted, rows = (sorted(each, key=lambda row: str(row["tag"])) for each in (wanted, rows))
    one, two = [row["tag"] for row in wanted], [row["tag"] for row in rows]
    if one != two:
        yield f"states in order: {two}, not {one}"
        return
    skipped = set(rules.get("skip", []))
    fields = [*(name for name in _ROW_FIELDS if name not in skipped), *rules.get("also", [])]
    for want, row in zip(wanted, rows, strict=True):
        for name in fields:
            if _settled(want[name]) != _settled(row[name]):
                shown = f"{json.dumps(row[name])}, not {json.dumps(want[name])}"
                yield f"{row['tag']} {name}: {shown}"


def _settled(value: Any) -> Any:
    """Salt lists the failed requisites in no fixed order."""
    if isinstance(value, str) and "One or more requisite failed: " in value:
        head, _, tail = value.partition("One or more requisite failed: ")
        return (head, sorted(tail.split(", ")))
    return value


def _compared_values(wanted: Any, value: Any, rules: Mapping[str, Any]) -> Iterator[str]:
    one, two = (_picked(each, rules) for each in (wanted, value))
    ordered = bool(rules.get("ordered"))
    if json.dumps(one, sort_keys=not ordered) != json.dumps(two, sort_keys=not ordered):
        yield f"value: {json.dumps(two)}, not {json.dumps(one)}"


def _picked(value: Any, rules: Mapping[str, Any]) -> Any:
    if rules.get("select") and isinstance(value, dict):
        value = {path: _dug(value, path) for path in rules["select"]}
    if rules.get("drop"):
        value = pruned(value, set(rules["drop"]))
    if rules.get("sort") and isinstance(value, list):
        value = sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _dug(value: Any, path: str) -> Any:
    for part in path.split(":"):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return "__absent__"
    return value


def _compared_files(
    wanted: Mapping[str, Any], found: Mapping[str, Any], modes: bool
) -> Iterator[str]:
    for path in sorted({*wanted, *found}):
        one, two = wanted.get(path), found.get(path)
        if one is None or two is None:
            yield f"file {path}: {'not expected' if one is None else 'missing'}"
            continue
        for key in sorted({*one, *two} - (set() if modes else {"mode"})):
            if one.get(key) != two.get(key):
                yield f"file {path} {key}: {two.get(key)!r}, not {one.get(key)!r}"
