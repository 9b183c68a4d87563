"""Bundle files → wanted objects, in two steps: ``read`` needs no cluster, ``resolve`` needs the API set of the target.

Both collect every mistake before they raise: a person corrects a bundle once, not once per mistake. Nothing is
skipped on an error, since what is skipped would be pruned (field case d5). ``scan`` and ``place`` are the same steps
for those who want to see all that can be seen of a bundle with mistakes (``fleetbeat check``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson

from fleetbeat.decisions import goyaml, manifest_body
from fleetbeat.decisions.manifest_body import BodyProblem
from fleetbeat.decisions.manifest_files import select
from fleetbeat.decisions.problems import Problem
from fleetbeat.errors import ManifestError, NotYet
from fleetbeat.model import ApiResource, ApiSet, Body, Manifest, ObjectId, Origin

#: Problems shown of one bundle; the rest is counted.
MAX_PROBLEMS = 20


@dataclass(frozen=True)
class RawManifest:
    """One object as written, cleaned, not yet placed in a namespace."""

    body: Body = field(repr=False)
    origin: Origin


@dataclass(frozen=True)
class ReadResult:
    documents: tuple[RawManifest, ...]  #: in the order of file, document, list item
    skipped: tuple[tuple[str, str], ...]  #: (file, or place of an object, and why it is not applied)
    problems: tuple[Problem, ...] = ()  #: only from ``scan``


@dataclass(frozen=True)
class Resolved:
    manifests: list[Manifest]  #: in the order they were read
    warnings: tuple[str, ...]  #: full sentences, each naming the object
    problems: tuple[Problem, ...] = ()  #: only from ``place``
    absent: tuple[Problem, ...] = ()  #: only from ``place``: kinds that may still come


def read(files: Mapping[str, bytes], *, path: str = "") -> ReadResult:
    """All objects of the manifests below ``path``.

    ``files``: "/"-separated path inside the bundle → content. Objects come flattened and cleaned as
    docs/manifests.md describes. Raises ManifestError with every problem of every file; one with a syntax error is
    read up to there.
    """
    found = scan(files, path=path)
    refuse(found.problems)
    return found


def scan(files: Mapping[str, bytes], *, path: str = "") -> ReadResult:
    """``read`` that returns the problems beside what is readable."""
    selection = select(files, path)
    problems = list(selection.problems)
    skipped = list(selection.skipped)
    documents: list[RawManifest] = []
    for file in selection.files:
        number = 0
        try:
            for document in goyaml.load_all(files[file]):
                number = document.number
                origin = Origin(file, document.number, document.line)
                for item in _objects(document.value, origin, problems):
                    if isinstance(item, RawManifest):
                        documents.append(item)
                    else:
                        skipped.append(item)
        except goyaml.YamlProblem as problem:
            problems.append(Problem.in_line(file, problem.line, problem.message, document=number + 1))
    return ReadResult(tuple(documents), tuple(skipped), tuple(problems))


def _objects(value: Any, origin: Origin, problems: list[Problem]) -> Iterator[RawManifest | tuple[str, str]]:
    if value is None:
        return
    for body, item in manifest_body.objects(value):
        where, label = f"{origin}{item}", manifest_body.label_of(body)
        if manifest_body.is_local(body):
            yield where, f"{label} is marked config.kubernetes.io/local-config"
            continue
        try:
            yield RawManifest(manifest_body.cleaned(body), origin)
        except BodyProblem as problem:
            problems.append(Problem.at(origin, str(problem), subject=label, item=item))


def bundle_kinds(raw: Sequence[RawManifest]) -> tuple[ApiResource, ...]:
    """The kinds that CustomResourceDefinitions of the bundle will make the cluster serve.

    A definition that is not well-formed gives none: the API server says what is wrong with it.
    """
    found: list[ApiResource] = []
    for document in raw:
        body = document.body
        if body["kind"] != "CustomResourceDefinition" or not body["apiVersion"].startswith("apiextensions.k8s.io/"):
            continue
        spec = _mapping(body.get("spec"))
        names = _mapping(spec.get("names"))
        group, kind, plural, scope = spec.get("group"), names.get("kind"), names.get("plural"), spec.get("scope")
        if not (isinstance(group, str) and isinstance(kind, str) and isinstance(plural, str)):
            continue
        versions = spec.get("versions")
        served = [
            v for v in map(_mapping, versions if isinstance(versions, list) else ()) if v.get("served") is not False
        ]
        found.extend(
            ApiResource(
                *(group, version["name"], kind, plural),
                namespaced=scope != "Cluster",
                has_status="status" in _mapping(version.get("subresources")),
            )
            for version in served
            if isinstance(version.get("name"), str)
        )
    return tuple(found)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def resolve(raw: Sequence[RawManifest], *, apis: ApiSet, namespace: str) -> Resolved:
    """Every object with its identity in the target cluster.

    ``namespace`` is given to namespaced objects that name none; "" = there is no such default. The scope of a kind is
    what the cluster serves, else what a definition in the bundle says.

    Raises ManifestError naming every object that has no namespace, that stands twice, or whose kind is unknown.
    Raises NotYet when nothing else is wrong than kinds that may still come: custom ones, or any when the cluster
    could not tell all it serves.
    """
    found = place(raw, apis=apis, namespace=namespace)
    if found.absent and not found.problems:
        raise NotYet("\n".join(_capped(found.absent)))
    refuse(found.problems + found.absent)
    return found


def place(raw: Sequence[RawManifest], *, apis: ApiSet, namespace: str | None) -> Resolved:
    """``resolve`` that returns the problems beside what could be placed.

    ``namespace`` None: the default is not known, objects that name none are left without.
    """
    ours = bundle_kinds(raw)
    problems: list[Problem] = []
    absent: list[Problem] = []
    warnings: list[str] = []
    placed: dict[ObjectId, Manifest] = {}
    for document in raw:
        body, metadata = document.body, document.body["metadata"]
        group, _, version = body["apiVersion"].rpartition("/")
        label = manifest_body.label_of(body)
        resource = apis.find(group, body["kind"], version) or _find(ours, group, body["kind"], version)
        if resource is None:
            text, may_come = _unknown(apis, ours, group, version, body["kind"])
            (absent if may_come else problems).append(Problem.at(document.origin, text, subject=label))
            continue
        home = (metadata.get("namespace") or namespace or "") if resource.namespaced else ""
        if resource.namespaced and not home and namespace is not None:
            text = "names no namespace, and the application has no spec.destination.namespace to give it"
            problems.append(Problem.at(document.origin, text, subject=label))
            continue
        if not resource.namespaced and metadata.get("namespace"):
            text = f"{resource.kind} is cluster-scoped; namespace {metadata['namespace']!r} is ignored"
            warnings.append(f"{document.origin}: {label}: {text}")
        key = ObjectId(group, body["kind"], home, manifest_body.name_of(metadata))
        if "name" not in metadata:
            # Each is an object of its own, also beside another one of the same prefix.
            numbers = (key._replace(name=f"{key.name}{number}") for number in count(2))
            key = key if key not in placed else next(other for other in numbers if other not in placed)
        if key in placed:
            text = f"also stands in {placed[key].origin}; keep one"
            problems.append(Problem.at(document.origin, text, subject=str(key)))
            continue
        placed[key] = Manifest(key, version, _in_namespace(body, home), document.origin)
    return Resolved(list(placed.values()), tuple(warnings), tuple(problems), tuple(absent))


def _find(kinds: Sequence[ApiResource], group: str, kind: str, version: str) -> ApiResource | None:
    return next((k for k in kinds if (k.group, k.kind, k.version) == (group, kind, version)), None)


def _unknown(apis: ApiSet, ours: Sequence[ApiResource], group: str, version: str, kind: str) -> tuple[str, bool]:
    """What to say of a kind that is not served, and whether waiting may help."""
    known = [*apis.versions(group, kind), *(k.version for k in ours if (k.group, k.kind) == (group, kind))]
    written = f"{group}/{version}" if group else version
    built_in = "." not in group or group.endswith(".k8s.io")
    if known:
        others = ", ".join(dict.fromkeys(f"{group}/{v}" if group else v for v in known))
        return f"kind {kind} is not served in version {written}, only in {others}", not (built_in and apis.complete)
    text = f"kind {kind} in {written} is neither served by the cluster nor defined by the bundle"
    if not apis.complete:
        text += " (the cluster could not list all of its APIs)"
    return text, "." in group or not apis.complete


def _in_namespace(body: Body, namespace: str) -> Body:
    metadata = {key: value for key, value in body["metadata"].items() if key != "namespace"}
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "metadata": metadata}


def digest(manifest: Manifest) -> str:
    """``sha256:`` of the body as JSON with sorted keys: equal for the same object however its YAML was written."""
    text = orjson.dumps(manifest.body, option=orjson.OPT_SORT_KEYS)
    return "sha256:" + hashlib.sha256(text).hexdigest()


def _capped(problems: Sequence[Problem]) -> list[str]:
    more = len(problems) - MAX_PROBLEMS
    return [*problems[:MAX_PROBLEMS], f"and {more} more"] if more > 0 else list(problems)


def refuse(problems: Sequence[Problem]) -> None:
    """Raises ManifestError with the first ``MAX_PROBLEMS`` and the number of the rest, when there are any."""
    if problems:
        raise ManifestError(_capped(problems))
