"""Which files of a bundle are manifests. The rule is fixed and has no ignore file: docs/manifests.md tells it to users.

A file is taken by the ending of its name in any case (field case i8): an object that is missed because of ``.YAML``
would be pruned. What another tool has to render first is refused, never applied as it is (field case i7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleetbeat.decisions.problems import Problem

_ENDINGS = (".yaml", ".yml", ".json")

#: File names another tool works from. kustomize and Helm know exactly these spellings.
_RENDERED_BY = {
    "kustomization.yaml": "kustomize is not rendered by this version; push the output of `kustomize build`",
    "kustomization.yml": "kustomize is not rendered by this version; push the output of `kustomize build`",
    "Kustomization": "kustomize is not rendered by this version; push the output of `kustomize build`",
    "Chart.yaml": "Helm charts are not rendered by this version; push the output of `helm template`",
}

#: group of apiVersion → the same, for a kustomization under another file name
RENDERED_GROUPS = {"kustomize.config.k8s.io": _RENDERED_BY["kustomization.yaml"]}


@dataclass(frozen=True)
class Selection:
    files: tuple[str, ...]  #: sorted
    skipped: tuple[tuple[str, str], ...]  #: (file, why), sorted
    problems: tuple[Problem, ...]


def select(files: Iterable[str], folder: str) -> Selection:
    """The manifests below ``folder`` ("" = the whole bundle), with everything in subfolders.

    ``files``: "/"-separated paths inside the bundle. A folder that is not there is a problem, not an empty selection:
    a typing error must not look like "everything is to be deleted" (field case d4).
    """
    everything = sorted(files)
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if ".." in parts or folder.startswith("/"):
        return _nothing(f"path {folder!r} leaves the bundle; give a folder inside it, such as overlays/prod")
    prefix = "".join(f"{part}/" for part in parts)
    inside = [file for file in everything if file.startswith(prefix)]
    if parts and not inside:
        if prefix[:-1] in everything:
            return _nothing(f"path {folder!r} is a file; give the folder it is in")
        tops = sorted({file.split("/", 1)[0] for file in everything if "/" in file})
        has = f"has the folders {', '.join(tops)}" if tops else "has no folders"
        return _nothing(f"path {folder!r} is not in the bundle, which {has}")

    chosen, skipped, problems = [], [], []
    for file in inside:
        *above, name = file[len(prefix) :].split("/")
        if any(part.startswith(".") for part in (*above, name)):
            skipped.append((file, "hidden"))
        elif name in _RENDERED_BY:
            problems.append(Problem(_RENDERED_BY[name], file=file))
        elif name.lower().endswith(_ENDINGS):
            chosen.append(file)
        else:
            skipped.append((file, "not .yaml, .yml or .json"))
    return Selection(tuple(chosen), tuple(skipped), tuple(problems))


def _nothing(problem: str) -> Selection:
    return Selection((), (), (Problem(problem),))
