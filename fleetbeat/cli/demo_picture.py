"""The demo's screen as a picture: an SVG that needs nothing from the network, and changes only where the text does."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

_THEME = TerminalTheme(
    background=(13, 17, 23),
    foreground=(230, 237, 243),
    normal=[
        (110, 118, 129),  # black, red, green, yellow, blue, magenta, cyan, white
        (255, 123, 114),
        (63, 185, 80),
        (227, 179, 65),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)

#: rich's own layout fetches a web font; here the reader's monospace font does, as every text has its length with it.
_LAYOUT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def save(console: Console, path: Path) -> None:
    """Everything a recording console has shown so far."""
    path.write_text(console.export_svg(title="fleetbeat demo", theme=_THEME, code_format=_LAYOUT, unique_id="demo"))
