"""The demo's picture stands alone: a README shows it where no script runs and nothing may be fetched."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console

from fleetbeat.cli.demo_picture import save


def test_the_picture_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    console = Console(record=True, width=40, file=io.StringIO())
    console.print("[bold green]created[/]  ConfigMap <shop>/web & more")
    save(console, tmp_path / "demo.svg")
    svg = (tmp_path / "demo.svg").read_text()
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - made a line above
    assert "ConfigMap" in svg
    links = re.findall(r"https?://[^\"') ]+|url\((?!#)[^)]*\)", svg)
    assert links == ["http://www.w3.org/2000/svg"]


def test_the_same_screen_gives_the_same_picture(tmp_path: Path) -> None:
    pictures = []
    for name in ("a.svg", "b.svg"):
        console = Console(record=True, width=40, file=io.StringIO())
        console.print("hello")
        save(console, tmp_path / name)
        pictures.append((tmp_path / name).read_text())
    assert pictures[0] == pictures[1]
