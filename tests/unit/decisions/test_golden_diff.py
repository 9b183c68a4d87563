"""What differs and how it is shown: one folder per case in tests/golden/diff."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fleetbeat.decisions.changes import changed_paths, format_path, unified

CASES = sorted(path for path in (Path(__file__).parents[2] / "golden" / "diff").iterdir() if path.is_dir())


def told(case: Path) -> str:
    live, answer = (
        yaml.safe_load(path.read_text()) if (path := case / f"{name}.yaml").exists() else None
        for name in ("live", "answer")
    )
    paths = [format_path(path) for path in changed_paths(live, answer)] if live and answer else []
    text = unified(live, answer)
    if not text:
        assert paths == []
        return "no difference\n"
    return "\n".join([*paths, *([""] if paths else []), text]) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path):
    assert told(case) == (case / "expected.txt").read_text()
