"""The catalog directory: what is wanted, in YAML → ``model.Catalog``, or every mistake in one error.

A broken catalog never takes part of the fleet away: the caller keeps the last good one in force (design.md §3).
"""

from __future__ import annotations

import copy
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import orjson

from fleetbeat.catalog_fields import shown
from fleetbeat.catalog_kinds import (
    API_VERSION,
    KINDS,
    KINDS_LATER,
    name_of,
    parse_application,
    parse_cluster,
    parse_project,
)
from fleetbeat.decisions import dependencies, goyaml, references
from fleetbeat.decisions.problems import did_you_mean
from fleetbeat.decisions.projects import DEFAULT, effective
from fleetbeat.decisions.window_match import matches
from fleetbeat.errors import CatalogError, ConfigurationError
from fleetbeat.model import Application, Catalog, Cluster, Project

__all__ = ["Loaded", "load", "parse_application", "parse_cluster", "parse_entry", "parse_project"]

#: Bytes of one file. 4 MiB is about 6,000 applications; more is a file that strayed into the folder.
MAX_FILE = 4 * 1024 * 1024

_Value = Application | Cluster | Project
_PARSE: Mapping[str, Callable[[Mapping[str, Any], str], _Value]] = {
    "Application": parse_application,
    "Cluster": parse_cluster,
    "Project": parse_project,
}
#: Fields that hold a path, below ``spec``. A relative one is meant from the folder of the file it stands in.
_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "Application": (
        ("source", "oci"),
        ("source", "ca", "file"),
        ("source", "auth", "password", "file"),
        ("source", "auth", "token", "file"),
    ),
    "Cluster": (
        ("kubeconfig",),
        ("ca", "file"),
        ("token", "file"),
        ("clientCertificate", "file"),
        ("clientKey", "file"),
    ),
    "Project": (),
}
_MOST_PROJECTS = 100
_PROJECTS: dict[bytes, Project] = {}  #: digest of its document → parsed; single reads and writes are atomic
#: Beside an application's own fields in ``Loaded.documents``: what its project says.
_PROJECT = "project"


@dataclass(frozen=True)
class Loaded:
    """A valid catalog, and its documents for those who read it on other machines."""

    catalog: Catalog
    #: "Application/shop" | "Cluster/prod" → the document as JSON types, paths absolute; an application's with the rules
    #: of its project (``parse_entry``). Holds inline credentials in clear: seal it before it leaves the process, never
    #: print it.
    documents: Mapping[str, dict[str, Any]] = field(repr=False)
    #: sha256 of all documents; equal for equal catalogs on every machine. It covers inline credentials, so where
    #: strangers may read it, it needs a key (HMAC) on top.
    digest: str


@dataclass(frozen=True)
class _Document:
    """One document of the directory, not yet looked into."""

    where: str  #: "apps/shop.yaml, document 2 (line 14)"
    kind: str
    name: str  #: "" when it has no valid one
    body: dict[str, Any] = field(repr=False)


def load(directory: Path) -> Loaded:
    """Read every ``*.yaml`` and ``*.yml`` below ``directory``; hidden files and folders are left out.

    An empty directory is an empty catalog. Raises ConfigurationError when there is no such directory, CatalogError
    with all problems of all files otherwise.
    """
    try:
        next(directory.iterdir(), None)
    except OSError as error:
        raise ConfigurationError(
            f"catalog {directory}: {error.strerror}. Give the folder that holds the catalog's YAML files"
        ) from error
    problems: list[str] = []
    parsed: dict[str, _Value] = {}
    bodies: dict[str, dict[str, Any]] = {}
    first: dict[str, _Document] = {}
    for document in _read(directory, problems):
        try:
            value = _PARSE[document.kind](document.body, document.where)
        except CatalogError as error:
            problems += error.problems
        else:
            parsed.setdefault(f"{document.kind}/{document.name}", value)
        if not document.name:
            continue
        key = f"{document.kind}/{document.name}"
        if key in first:
            problems.append(
                f"{document.where}, {document.kind} {document.name}: metadata.name: "
                f"the same name is used in {first[key].where}. Names are unique within a kind"
            )
        first.setdefault(key, document)
        bodies.setdefault(key, document.body)
    problems += _unknown_clusters(parsed, first)
    problems += _unknown_projects(parsed, first)
    problems += _dependencies(parsed, first)
    if problems:
        raise CatalogError(problems)
    clusters = {value.name: value for value in parsed.values() if isinstance(value, Cluster)}
    projects = {value.name: value for value in parsed.values() if isinstance(value, Project)}
    applications: dict[str, Application] = {}
    documents = {key: body for key, body in bodies.items() if not isinstance(parsed[key], Project)}
    for value in parsed.values():
        if not isinstance(value, Application):
            continue
        project = projects.get(value.project)
        if project is None:
            applications[value.name] = value
            continue
        cluster = clusters[value.destination.cluster]
        hits = [matches(window, value, cluster) for window in project.windows]
        matching = replace(project, windows=tuple(compress(project.windows, hits)))
        applications[value.name] = effective(value, matching)
        documents[f"Application/{value.name}"] |= {_PROJECT: _rules(bodies[f"Project/{project.name}"], hits)}
    return Loaded(Catalog(applications, clusters, projects), documents, _digest(documents))


def parse_entry(document: Mapping[str, Any], where: str) -> Application:
    """An application as ``Loaded.documents`` holds it, with the rules of its project. Raises CatalogError.

    They travel with it so that a worker reads what is wanted in one piece, and so that an edit of the project changes
    exactly those applications it is about.
    """
    application = parse_application({name: value for name, value in document.items() if name != _PROJECT}, where)
    project = document.get(_PROJECT)
    if project is None:
        return application
    return effective(application, _project(project, f"{where}, its project"))


def _project(document: Mapping[str, Any], where: str) -> Project:
    """Parsed once for all applications it says the same to: thousands of windows take a second and 4 MB."""
    key = hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).digest()
    found = _PROJECTS.get(key)
    if found is None:
        found = parse_project(document, where)
        if len(_PROJECTS) >= _MOST_PROJECTS:
            _PROJECTS.clear()
        _PROJECTS[key] = found
    return found


def _rules(project: Mapping[str, Any], hits: Sequence[bool]) -> dict[str, Any]:
    """What of a project's document matters to one application: its windows, and not what is for people only."""
    spec = {name: value for name, value in project["spec"].items() if name != "description"}
    if hits:
        spec["syncWindows"] = list(compress(spec["syncWindows"], hits))
    return {
        "apiVersion": project["apiVersion"],
        "kind": project["kind"],
        "metadata": {"name": project["metadata"]["name"]},
        "spec": spec,
    }


def _read(directory: Path, problems: list[str]) -> Iterator[_Document]:
    """Every document of a kind we know, in the order of file names; anything else becomes a problem."""
    for path in _files(directory, problems, set()):
        file = path.relative_to(directory).as_posix()
        try:
            for found in goyaml.load_all(_content(path)):
                if found.value is None:  # nothing between two `---`
                    continue
                where = f"{file}, document {found.number} (line {found.line})"
                problem = _kind_problem(found.value)
                if problem:
                    problems.append(f"{where}: {problem}")
                    continue
                body = _with_absolute_paths(found.value, path.parent.absolute())
                yield _Document(where, body["kind"], name_of(body), body)
        except goyaml.YamlProblem as error:
            problems.append(f"{file}, line {error.line}: {error.message}")
        except OSError as error:
            # Also a file replaced while we read; the next look finds the new one.
            problems.append(f"{file}: cannot be read: {error.strerror}")


def _content(path: Path) -> bytes:
    """Raises OSError; also for a pipe or device, which might never end, and for a file of an absurd size."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if status.st_size > MAX_FILE:
        raise OSError(errno.EFBIG, f"larger than {MAX_FILE // 1024 // 1024} MiB, the limit for one catalog file")
    return path.read_bytes()


def _files(folder: Path, problems: list[str], seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Follows links, as mounted ConfigMaps and git-sync are made of them; each real folder is read once."""
    try:
        status = folder.stat()
        entries = [(path, path.is_dir()) for path in sorted(folder.iterdir())]
    except OSError as error:
        problems.append(f"{folder}: cannot be read: {error.strerror}")
        return
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for path, is_folder in entries:
        if path.name.startswith("."):
            continue
        if (name := os.fsencode(path.name).decode(errors="backslashreplace")) != path.name:
            # Where a document stands is told in messages and logs, and files it names are meant from there.
            problems.append(f"{name}: this name is not UTF-8. Rename it")
        elif is_folder:
            yield from _files(path, problems, seen)
        elif path.suffix.lower() in (".yaml", ".yml"):
            yield path


def _kind_problem(value: object) -> str:
    """Why this document is not one to parse; "" when it is."""
    if not isinstance(value, Mapping):
        return "must be a mapping with apiVersion, kind, metadata and spec"
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        return f"kind: missing: one of {', '.join(KINDS)}"
    if kind in KINDS:
        return ""
    if kind in KINDS_LATER:
        return f"kind: {kind} is not supported by this version"
    near = did_you_mean(kind, KINDS)
    return f"kind: {shown(kind)} is not a kind of the catalog ({API_VERSION}).{near or ' Known: ' + ', '.join(KINDS)}"


def _unknown_projects(parsed: Mapping[str, _Value], first: Mapping[str, _Document]) -> Iterator[str]:
    known = [document.name for document in first.values() if document.kind == "Project"]
    for key, value in parsed.items():
        if isinstance(value, Application) and value.project not in (*known, DEFAULT):
            near = did_you_mean(value.project, [*known, DEFAULT])
            others = f" Known: {', '.join(sorted(known)[:5])}" if known else " This catalog has no Project at all"
            yield (
                f"{first[key].where}, Application {value.name}: spec.project: "
                f"no Project is called {shown(value.project)}.{near or others}"
            )


def _dependencies(parsed: Mapping[str, _Value], first: Mapping[str, _Document]) -> Iterator[str]:
    """Applications that wait for one that is not there, or in a ring for each other."""
    known = [document.name for document in first.values() if document.kind == "Application"]
    waiting = {value.name: value for value in parsed.values() if isinstance(value, Application)}
    for name, value in waiting.items():
        where = f"{first[f'Application/{name}'].where}, Application {name}"
        for number, need in enumerate(value.depends_on):
            if need not in known:
                near = did_you_mean(need, known)
                yield f"{where}: spec.dependsOn[{number}].name: no Application is called {shown(need)}.{near}"
    for ring in dependencies.cycles(waiting):
        where = first[f"Application/{ring[0]}"].where
        yield f"{where}, Application {ring[0]}: spec.dependsOn goes in a ring: {dependencies.told(ring)}"


def _unknown_clusters(parsed: Mapping[str, _Value], first: Mapping[str, _Document]) -> Iterator[str]:
    # A Cluster with a mistake of its own is still known by name: one mistake, one sentence.
    known = [document.name for document in first.values() if document.kind == "Cluster"]
    for key, value in parsed.items():
        if isinstance(value, Application) and value.destination.cluster not in known:
            wanted = value.destination.cluster
            near = did_you_mean(wanted, known)
            others = f" Known: {', '.join(sorted(known)[:5])}" if known else " This catalog has no Cluster at all"
            yield (
                f"{first[key].where}, Application {value.name}: spec.destination.cluster: "
                f"no Cluster is called {shown(wanted)}.{near or others}"
            )


def _with_absolute_paths(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A copy whose relative paths are joined to ``folder``, as other machines and processes have other folders."""
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    for *parents, last in _PATHS[changed["kind"]]:
        holder = changed.get("spec")
        for name in parents:
            holder = holder.get(name) if isinstance(holder, dict) else None
        value = holder.get(last) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or not isinstance(value, str) or not value:
            continue
        if last != "oci":
            holder[last] = _absolute(value, folder)
        elif references.is_layout(value):
            scheme = references.LAYOUT_SCHEME if value.startswith(references.LAYOUT_SCHEME) else ""
            holder[last] = scheme + _absolute(value.removeprefix(scheme), folder)
    return changed


def _absolute(path: str, folder: Path) -> str:
    # expanduser of os.path leaves "~" alone where there is no home; normpath, not resolve(): a link such as a mounted
    # token's is followed at use, when it may point elsewhere.
    return os.path.normpath(folder / os.path.expanduser(path))  # noqa: PTH111


def _digest(documents: Mapping[str, Any]) -> str:
    """One document after the other: a hundred megabytes in one call would let no other thread run for seconds."""
    whole = hashlib.sha256()
    for entry in sorted(documents):
        whole.update(orjson.dumps([entry, documents[entry]], option=orjson.OPT_SORT_KEYS))
    return "sha256:" + whole.hexdigest()
