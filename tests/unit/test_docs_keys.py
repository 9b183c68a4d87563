"""docs/architecture.md lists every Redis key with its type, every reason of an event, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from fleetbeat import keys
from fleetbeat.decisions.events import REASONS

ROOT = Path(__file__).parents[2]
#: parameter of a key's function → how the table writes it
PLACEHOLDERS = {"run_id": "<run>", "source_key": "<source>", "group_kind": "<kind>"}


def keys_in_code() -> dict[str, str]:
    """Key → type, the first word of its comment or docstring."""
    source = inspect.getsource(keys)
    found = {}
    for comment, name in re.findall(r"#: (\w+)[^\n]*\n(?:#:[^\n]*\n)*([A-Z_]+) =", source):
        found[getattr(keys, name)] = comment
    for function in vars(keys).values():
        if inspect.isfunction(function) and function.__module__ == keys.__name__:
            arguments = [PLACEHOLDERS.get(name, f"<{name}>") for name in inspect.signature(function).parameters]
            found[function(*arguments)] = re.match(r"\w+", inspect.getdoc(function) or "")[0]  # type: ignore[index]
    return found


def keys_in_table() -> dict[str, str]:
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## Every Redis key\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (\w+) \|", section, flags=re.MULTILINE))


def test_every_key_of_the_code_has_a_comment_with_its_type() -> None:
    constants = {name for name in vars(keys) if name.isupper()} - {"PREFIX"}
    assert {getattr(keys, name) for name in constants} <= keys_in_code().keys()
    assert set(keys_in_code().values()) <= {"hash", "list", "zset", "set", "string", "integer", "stream"}


def test_the_table_is_what_the_code_says() -> None:
    assert keys_in_table() == keys_in_code()


def test_the_table_of_reasons_is_what_the_code_says() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text().partition("| reason | when |\n|---|---|\n")[2]
    table = text.partition("\n\n")[0].splitlines()
    assert table == [f"| {reason} | {when} |" for reason, when in REASONS.items()]
