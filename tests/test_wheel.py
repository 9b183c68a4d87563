"""The wheel as a user gets it: what is in it, and that it runs where there is no checkout.

Built and installed without an index: the dependencies come from the environment that runs this test.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"fleetbeat", "workers", "scheduler"}
#: files that are not Python and without which a part would not run: pattern below the checkout → what they are for
DATA = {
    "fleetbeat/clients/*.lua": "Redis scripts",
    "fleetbeat/local/go/*": "sources of the simulated cluster",
    "fleetbeat/local/example/**/*.yaml": "the example of the demo",
}


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "FLEETBEAT_"))
    }
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=kept | environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that holds the wheel and sees our dependencies, but not the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # A path named by a .pth file is searched last and its own .pth files (the editable install) are not read.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_holds_exactly_three_packages(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".so"))]


@pytest.mark.parametrize("pattern", DATA, ids=DATA.values())
def test_data_files_are_in_it(names: set[str], pattern: str) -> None:
    wanted = {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern) if path.is_file()}
    assert wanted
    assert wanted <= names


def test_every_module_of_the_checkout_is_in_it(names: set[str]) -> None:
    wanted = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert wanted == {name for name in names if name.endswith(".py")}


def test_it_can_never_be_uploaded_by_mistake(wheel: Path, names: set[str]) -> None:
    (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with zipfile.ZipFile(wheel) as archive:
        assert "Classifier: Private :: Do Not Upload" in archive.read(metadata).decode()


def test_it_imports_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    program = "import fleetbeat, workers, scheduler\nfor m in (fleetbeat, workers, scheduler): print(m.__file__)"
    places = run(installed, "-c", program, cwd=tmp_path).split()
    assert [Path(place).is_relative_to(installed.parent.parent) for place in places] == [True] * 3


def test_every_package_has_one_owner(installed: Path, tmp_path: Path) -> None:
    """Somebody else's `workers` or `scheduler` would overwrite ours without a word (docs/decisions/0002)."""
    program = "import importlib.metadata as m; d = m.packages_distributions(); print(*(','.join(d[n]) for n in {}))"
    assert run(installed, "-c", program.format(sorted(PACKAGES)), cwd=tmp_path).split() == ["fleetbeat"] * 3


def test_its_command_runs(wheel: Path, names: set[str], installed: Path, tmp_path: Path) -> None:
    (entry_points,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
    parser = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        parser.read_string(archive.read(entry_points).decode())
    assert list(parser["console_scripts"]) == ["fleetbeat"]
    assert "Usage: fleetbeat" in run(installed.parent / "fleetbeat", "--help", cwd=tmp_path)
