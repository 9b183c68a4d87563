"""What the documentation names exists: files, headings, make targets, commands and their options, settings."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fleetbeat.cli.main import cli
from fleetbeat.settings import OUTSIDE, Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("fleetbeat/local/example/*.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
#: fenced code in these languages is no command line
NO_SHELL = {"mermaid", "yaml", "json", "python"}

page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


# ── reading Markdown ─────────────────────────────────────────────────────────────────────────────────────────────


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, line) of every line; language "text" outside of code, "" for code without one."""
    language: str | None = None
    for line in text.splitlines():
        if fence := re.match(r"\s*```(\w*)", line):
            language = fence[1] if language is None else None
        elif language is not None:
            yield language, line
        else:
            yield ("" if line.startswith("    ") else "text"), line


def shell_lines(text: str) -> Iterator[str]:
    """Code that may hold commands: fenced or indented lines, and `spans` in sentences."""
    for language, line in blocks(text):
        if language == "text":
            yield from re.findall(r"`([^`]+)`", line)
        elif language not in NO_SHELL:
            yield line


def anchors(path: Path) -> set[str]:
    """Headings as GitHub names them."""
    titles = [
        line.lstrip("#").strip()
        for language, line in blocks(path.read_text())
        if language == "text" and line[:1] == "#"
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# ── links and files ──────────────────────────────────────────────────────────────────────────────────────────────


@page
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@page
def test_files_named_in_code_spans_exist(path: Path) -> None:
    spans = re.findall(
        r"`((?:docs|fleetbeat|workers|scheduler|tests|clients|decisions|engine)/[\w./*{}<>-]*)`", path.read_text()
    )
    missing = []
    for span in spans:
        pattern = re.sub(r"<\w+>|\{[^}]*\}", "*", span).rstrip("/")
        if not any(
            any(base.glob(pattern)) for base in (ROOT, ROOT / "fleetbeat", ROOT / "docs", ROOT / "tests" / "unit")
        ):
            missing.append(span)
    assert missing == []


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────


def commands(text: str, program: str) -> Iterator[list[str]]:
    """Words after ``program`` where it is the command: at a beginning, behind ``$(``, ``|``, ``&&``, an assignment."""
    for line in shell_lines(text):
        code = line.partition(" #")[0]
        for part in re.split(r"&&|\|\||[|;]|\$\(", code):
            words = part.strip().strip('")`').split()
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                del words[0]
            if words and words[0].rpartition("/")[2] == program:
                yield [word.strip('")') for word in words[1:]]


@page
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {words[0] for words in commands(path.read_text(), "make") if words and re.fullmatch(r"[a-z]+", words[0])}
    assert named - targets == set()


def fault(words: list[str]) -> str:
    """What is wrong with ``fleetbeat <words>``, "" when nothing is."""
    command: click.Command = cli
    context = click.Context(cli)
    known = {"--help", "-h"}
    for word in words:
        if word.startswith("-") and word != "-":  # standard input
            name = word.partition("=")[0]
            options = {
                option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
            if name not in options | known:
                return f"{command.name} has no {name}"
        elif isinstance(command, click.Group):
            if not re.fullmatch(r"[a-z|]+", word):
                return ""  # a placeholder: COMMAND, …
            for each in word.split("|"):
                found = command.get_command(context, each)
                if found is None:
                    return f"there is no {each}"
            command = found
    return ""


@page
def test_commands_and_options_exist(path: Path) -> None:
    faults = [
        f"fleetbeat {shlex.join(words)}: {why}"
        for words in commands(path.read_text(), "fleetbeat")
        if (why := fault(words))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("    fleetbeat snyc shop", True),
        ("    fleetbeat sync shop --wiat", True),
        ("see `fleetbeat local castle`", True),
        ('    eval "$(fleetbeat env)" && fleetbeat status', False),
        ("    fleetbeat local cluster|registry|redis", False),
        ("fleetbeat decides, as prose has it", False),
    ],
)
def test_the_check_itself(line: str, wrong: bool) -> None:
    assert any(fault(words) for words in commands(line, "fleetbeat")) is wrong


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────


def settings() -> set[str]:
    found = set(OUTSIDE)
    for field in dataclasses.fields(Settings):
        group = getattr(Settings(), field.name)
        if dataclasses.is_dataclass(group):
            found |= {f"FLEETBEAT_{field.name}_{leaf.name}".upper() for leaf in dataclasses.fields(group)}
        else:
            found.add(f"FLEETBEAT_{field.name}".upper())
    return found


@page
def test_settings_exist(path: Path) -> None:
    named = set(re.findall(r"\bFLEETBEAT_[A-Z_]*[A-Z]\b", path.read_text()))
    assert named - settings() == set()
