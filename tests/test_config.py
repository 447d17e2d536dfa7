"""kernels.toml: what it may say, and where it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ptxtemplates.config import load, select
from ptxtemplates.errors import ConfigError
from tests.helpers.variants import KERNELS, LIST

if TYPE_CHECKING:
    from pathlib import Path

ROPE = '[[kernel]]\nname = "batched_rope"\nnum_heads = 32\nhead_dim = 128\ntheta = 1e4\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kernels.toml"


def variants(file: Path) -> list[str]:
    return [kernel.variant for kernel in load(file)]


def test_lists_expand_to_every_combination(file: Path) -> None:
    file.write_text(
        '[[kernel]]\nname = "batched_rope"\nnum_heads = [8, 32]\nhead_dim = [64, 128]\ntheta = [1e4]\n'
    )
    assert variants(file) == [
        f"batched_rope.h{heads}.d{head_dim}.theta10000" for heads in (8, 32) for head_dim in (64, 128)
    ]


def test_a_list_of_names_shares_a_table(file: Path) -> None:
    file.write_text(ROPE.replace('"batched_rope"', '["batched_rope", "batched_rope_backward"]'))
    assert variants(file) == ["batched_rope.h32.d128.theta10000", "batched_rope_backward.h32.d128.theta10000"]


def test_inline_tables_are_the_same(file: Path) -> None:
    file.write_text('kernel = [{name = "batched_rope", num_heads = 1, head_dim = 2, theta = 1}]\n')
    assert variants(file) == ["batched_rope.h1.d2.theta1"]


def test_crlf_and_byte_order(file: Path) -> None:
    file.write_bytes(ROPE.replace("\n", "\r\n").encode())
    assert variants(file) == ["batched_rope.h32.d128.theta10000"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "lists no kernels"),
        ("# nothing\n", 1, "lists no kernels"),
        ("kernel = []\n", 1, "lists no kernels"),
        ("kernel = 3\n", 1, "write [[kernel]]"),
        ("x = " + "[" * 5000, 1, "is nested too deeply"),
        (ROPE.replace("128", "9" * 5000), 1, "is not TOML that can be read: Exceeds the limit"),
        (
            ROPE.replace("128", "0x" + "f" * 5000),
            4,
            "head_dim must be an even integer from 2 to 512, not an integer of thousands",
        ),
        (
            ROPE.replace('"batched_rope"', "0x" + "f" * 5000),
            2,
            "no kernel is named 'an integer of thousands of digits'",
        ),
        (
            ROPE.replace("[[kernel]]", "\ufeff[[kernel]]").replace("128", "3"),
            4,
            "head_dim must be an even integer",
        ),
        (
            f'{ROPE}entry = """\n[[kernel]]\nhead_dim = 3\n"""\n{ROPE.replace("128", "3")}',
            6,
            "entry must be an identifier",
        ),
        ('[kernel]\nname = "batched_rope"\n', 1, "write [[kernel]]"),
        ("[[kernel]]\nname = batched_rope\n", 2, "is not TOML: Invalid value"),
        ("[[kernel]\n", 1, "is not TOML"),
        ('[[kernel]]\nname = "batched_rope"\nname = "x"\n', 3, "is not TOML: Cannot overwrite a value"),
        ("\n\n[[kernels]]\n", 3, "unknown key 'kernels'"),
        (f"title = 1\n{ROPE}", 1, "unknown key 'title'"),
        (f"{ROPE}\n[options]\nx = 1\n", 7, "unknown key 'options'"),
        (f"{ROPE}\n[[kernel]]\nhead_dim = 64\n", 7, "has no 'name'"),
        (
            ROPE.replace("batched_rope", "batched_ropes"),
            2,
            "no kernel is named 'batched_ropes'; did you mean 'batched_rope'?",
        ),
        (ROPE.replace('"batched_rope"', "3"), 2, "no kernel is named '3'"),
        (
            ROPE.replace("head_dim", "head_dims"),
            4,
            "there is no parameter 'head_dims'; did you mean 'head_dim'?",
        ),
        (ROPE.replace("theta = 1e4\n", ""), 1, "batched_rope: theta is missing and has no default"),
        (ROPE.replace("128", "127"), 4, "head_dim must be an even integer from 2 to 512, not 127"),
        (ROPE.replace("128", "1024"), 4, "head_dim must be an even integer from 2 to 512, not 1024"),
        (ROPE.replace("128", "[64, 0]"), 4, "head_dim must be an even integer from 2 to 512, not 0"),
        (ROPE.replace("128", "[[64]]"), 4, "head_dim must be an even integer from 2 to 512, not [64]"),
        (ROPE.replace("128", "[]"), 4, "head_dim is an empty list"),
        (
            ROPE.replace("1e4", "nan"),
            5,
            "theta must be a finite number above 0 that float64 holds exactly, not nan",
        ),
        (
            ROPE.replace("1e4", "-inf"),
            5,
            "theta must be a finite number above 0 that float64 holds exactly, not -inf",
        ),
        (
            ROPE.replace("1e4", '"1e4"'),
            5,
            "theta must be a finite number above 0 that float64 holds exactly, not '1e4'",
        ),
        (f'{ROPE}entry = "a b"\n', 6, "entry must be an identifier"),
        (f'{ROPE}target = "sm_60"\n', 6, "target must be one of sm_75"),
        (f"{ROPE}{ROPE}", 6, "variant batched_rope.h32.d128.theta10000 is listed twice, first in line 1"),
        (
            ROPE.replace("1e4", "[10000, 1e4]"),
            1,
            "variant batched_rope.h32.d128.theta10000 is listed twice, first in line 1",
        ),
        (f'{ROPE}entry = ["F", "f"]\n', 1, "entry-f is listed twice, first in line 1"),
    ],
)
def test_refused_with_line(file: Path, text: str, line: int, message: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}:{line}: "), str(caught.value)
    assert message in str(caught.value)


def test_line_in_the_second_table(file: Path) -> None:
    second = ROPE.replace("[[kernel]]", '  [[ "kernel" ]]  # the second').replace("128", "64")
    file.write_text(f"{ROPE}\n# between\n{second}x = 1\n")
    with pytest.raises(ConfigError, match=r":13: batched_rope: there is no parameter 'x'"):
        load(file)


@pytest.mark.parametrize("content", [b"\xff\xfe", b'[[kernel]]\nname = "\xe9"\n'])
def test_not_utf8(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"kernels\.toml:[12]: is not UTF-8"):
        load(file)


def test_no_file(file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read .*kernels.toml: No such file"):
        load(file)
    with pytest.raises(ConfigError, match="cannot read .*: Is a directory"):
        load(file.parent)


def test_select() -> None:
    kernels = load(LIST)
    assert {kernel.name for kernel in select(kernels, "batched_rope")} == {"batched_rope"}
    assert [kernel.variant for kernel in select(kernels, "*rope.h28*")] == [
        "batched_rope.h28.d128.theta1000000"
    ]
    with pytest.raises(
        ConfigError, match="no listed kernel matches 'batched_rop'; did you mean 'batched_rope'"
    ):
        select(kernels, "batched_rop")


def test_own_list_has_the_shapes_it_promises() -> None:
    values: dict[str, set[object]] = {}
    for kernel in KERNELS.values():
        for name, value in kernel.parameters.items():
            values.setdefault(name, set()).add(value)
    assert values["head_dim"] == {64, 80, 96, 128, 256}
    assert values["num_heads"] == {1, 8, 28, 32, 64}
    assert values["theta"] == {1e4, 5e5, 1e6}
    assert values["chunk_size"] == {16, 64, 128, 256}
    shapes = {
        name: {
            (k.parameters["head_dim"], k.parameters["num_heads"], k.parameters["chunk_size"])
            for k in KERNELS.values()
            if k.name == name
        }
        for name in ("flash_decoding_chunk", "flash_decoding_reduce")
    }
    assert shapes["flash_decoding_chunk"] == shapes["flash_decoding_reduce"]
