"""The renderers yamlex, msgpack and nacl."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgpack
import pytest

from catena.core.types import SourceLine
from catena.renderers.pipeline import render
from catena.renderers.source import Source, SourceError, SourceLimitError, decoded

nacl_public = pytest.importorskip("nacl.public")
nacl_secret = pytest.importorskip("nacl.secret")


def yamlex(context: Any, text: str) -> Any:
    return render(context, Source(f"#!yamlex\n{text}", "salt://t.sls")).data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: !aggregate foo\na: !aggregate bar\n", {"a": ["foo", "bar"]}),
        ("a: !aggregate [1, 2]\na: !aggregate [2, 3]\n", {"a": [1, 2, 3]}),
        (
            "a: !aggregate {x: 1}\na: !aggregate {y: 2}\na: !aggregate {x: 3}",
            {"a": {"x": 3, "y": 2}},
        ),
        ("a: {x: 1}\na: {y: 2}\n", {"a": {"y": 2}}),
        ("a: !aggregate 1\na: 2\n", {"a": 2}),
        ("a: 1\na: !aggregate 2\n", {"a": [2]}),
        ("!aggregate a: 1\n!aggregate a: 2\n", {"a": [1, 2]}),
        (
            "a: {!aggregate f: {x: 42}}\na: {!aggregate f: {y: null}}\n",
            {"a": {"f": {"x": 42, "y": None}}},
        ),
        (
            "a: {!aggregate f: {x: 42}}\n!reset a: {!aggregate f: {z: 1}}\n",
            {"a": {"f": {"z": 1}}},
        ),
        ("a: !aggregate foo\na: !reset bar\n", {"a": "bar"}),
        ("a: !aggregate foo\n!reset a: !aggregate b\na: !aggregate c\n", {"a": ["b", "c"]}),
        (
            "a: {x: !aggregate [1], z: 1}\na: {x: !aggregate [2], w: 2}\n",
            {"a": {"x": [1, 2], "w": 2}},
        ),
        ("a: !aggregate\nb: !aggregate {}\n", {"a": [], "b": {}}),
        (
            "a: !aggregate &q {x: 1}\nb: *q\nc: {<<: *q, y: 2}",
            {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}},
        ),
        ("a: !aggregate 'on'\nb: 010\n", {"a": ["on"], "b": 10}),
        ("- !aggregate x\n- y\n", [["x"], "y"]),
        ("", None),
    ],
)
def test_yamlex_joins_values_as_salt_does(make_context: Any, text: str, data: Any) -> None:
    assert yamlex(make_context(), text) == data


def test_yamlex_reset_inside_a_joined_mapping(make_context: Any) -> None:
    text = "a: !aggregate {x: !aggregate 1}\na: !aggregate {!reset x: !aggregate 2}\n"
    assert yamlex(make_context(), text) == {"a": {"x": [2]}}


def test_yamlex_limits_what_joining_makes(make_context: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("catena.renderers.yaml_builder.MAX_NODES", 1000)
    with pytest.raises(SourceLimitError, match="more than 1000 values"):
        yamlex(make_context(), "".join(f"a: !aggregate {n}\n" for n in range(100)))


def test_yamlex_fault_names_its_line(make_context: Any) -> None:
    with pytest.raises(SourceError, match="the tag '!agregate' is not allowed") as caught:
        yamlex(make_context(), "a: 1\nb: !agregate 1\n")
    assert caught.value.place.line == 3


def test_yamlex_data_knows_its_lines(make_context: Any) -> None:
    made = render(make_context(), Source("#!yamlex\na:\n  x: 1\nb: {}\n", "salt://t.sls"))
    assert [made.place("a", "x").line, made.place("b").line] == [3, 4]


def test_msgpack_file_is_read(make_context: Any) -> None:
    data = {"a": {"test.nop": [{"name": "é"}]}, "n": 300, 1: b"\xff".decode("latin-1")}
    text = decoded(b"#!msgpack\n" + msgpack.packb(data), "salt://t.sls")
    assert render(make_context(), Source(text, "salt://t.sls")).data == data


@pytest.mark.parametrize("body", [b"\xc1", b"\x81", b"\x01\x01", b"\x91" * 2000])
def test_msgpack_fault_is_an_error(make_context: Any, body: bytes) -> None:
    text = decoded(b"#!msgpack\n" + body, "salt://t.sls")
    with pytest.raises(SourceError, match=r"not MessagePack: .+salt://t\.sls"):
        render(make_context(), Source(text, "salt://t.sls"))


def test_only_msgpack_files_may_be_no_text() -> None:
    with pytest.raises(SourceError, match="not UTF-8"):
        decoded(b"#!yaml\n\xff", "salt://t.sls")


KEY = bytes(range(32))


def sealed(text: str) -> str:
    box = nacl_public.SealedBox(nacl_public.PrivateKey(KEY).public_key)
    return f"NACL[{base64.b64encode(box.encrypt(text.encode())).decode()}]"


def opened(make_context: Any, text: str, **config: Any) -> Any:
    context = make_context(opts={"nacl.config": config})
    return render(context, Source(f"#!yaml|nacl\n{text}", "pillar://p.sls")).data


def test_nacl_messages_anywhere_in_the_data_are_decrypted(
    make_context: Any, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_bytes(base64.b64encode(KEY) + b"\n")
    text = f'a: ["{sealed("one")}", {{b: "user={sealed("zwö")}@host"}}]\nc: plain\n'
    found = opened(make_context, text, sk_file=str(file))
    assert found == {"a": ["one", {"b": "user=zwö@host"}], "c": "plain"}


def test_nacl_secretbox(make_context: Any) -> None:
    message = base64.b64encode(nacl_secret.SecretBox(KEY).encrypt(b"x")).decode()
    text = f"a: NACL[{message}]\n"
    key = base64.b64encode(KEY).decode()
    assert opened(make_context, text, sk=key, box_type="secretbox") == {"a": "x"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"sk": base64.b64encode(b"\0" * 32).decode()}, "not encrypted for this key"),
        ({"sk": "c2hvcnQ="}, "nacl.config: sk: 5 bytes, a key has 32"),
        ({"sk": "%"}, "nacl.config: sk: no base64"),
        ({"sk_file": "/nonexistent/key"}, "/nonexistent/key: no key"),
        ({"sk": "x", "box_type": "box"}, "expected sealedbox or secretbox"),
        ({}, "conf/nacl: no key; set nacl.config: sk_file"),
    ],
)
def test_nacl_fault_names_line_and_reason(make_context: Any, config: Any, words: str) -> None:
    message = sealed("secret")
    with pytest.raises(SourceError) as caught:
        opened(make_context, f"x: 1\na: {message}\n", **config)
    assert words in str(caught.value)
    assert caught.value.place == SourceLine("pillar://p.sls", 3)


def test_nacl_message_that_is_no_message_is_an_error(make_context: Any) -> None:
    key = base64.b64encode(KEY).decode()
    for body in ("", "abc", "AAAA"):
        with pytest.raises(SourceError, match="nacl can't decrypt this"):
            opened(make_context, f"a: NACL[{body}]\n", sk=key)
