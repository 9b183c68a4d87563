"""``fleetbeat check``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.output import output_option, say, write
from fleetbeat.cli.session import Session
from fleetbeat.decisions.problems import Problem
from fleetbeat.decisions.waves import Stage
from fleetbeat.errors import BundleError
from fleetbeat.settings import Bundles


@click.command(
    epilog="""\b
Examples:
  fleetbeat check deploy/
  fleetbeat check deploy/ --path overlays/prod --namespace shop
  kustomize build overlays/prod | fleetbeat check -
  fleetbeat check deploy/ -o json | jq -r '.problems[].message'
Exit code 0: no problem; 1: at least one."""
)
@click.argument("source", metavar="DIR|FILE", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--path", default="", help="Folder inside DIR, as spec.source.path of the application.")
@click.option("--namespace", help="Given to objects that name none, as spec.destination.namespace of the application.")
@output_option
@click.pass_context
def check(ctx: click.Context, source: Path, path: str, namespace: str | None, output: str) -> None:
    """Look for mistakes in manifests, without a server.

    Reads a folder as a sync would read it once it is pushed, or one file ("-" is standard input), and prints in which
    order a sync would apply it and every problem that would make a sync refuse it. Kinds are those of Kubernetes
    itself and those that the manifests define; others are taken for namespaced. Whether the API server accepts the
    objects, only `fleetbeat diff` can tell.
    """
    session: Session = ctx.obj
    try:
        files = _files(source, session.settings.bundles)
    except BundleError as error:  # what `fleetbeat push` would refuse to pack
        found = Findings((), (Problem(str(error)),), ())
    else:
        found = look(files, path=path, namespace=namespace)
    if output == "table":
        _tell(found)
    else:
        for note in found.notes:
            say(f"note: {note}", err=True)
        write(as_json(found), output)
    ctx.exit(Exit.FAILED if found.problems else Exit.OK)


@dataclass(frozen=True)
class Findings:
    stages: tuple[Stage, ...]  #: of every object whose turn can be told
    problems: tuple[Problem, ...]  #: by file and document
    notes: tuple[str, ...]  #: what a sync would only tell, and what had to be assumed without a cluster


def look(files: Mapping[str, bytes], *, path: str = "", namespace: str | None = None) -> Findings:
    """Everything that can be said of a bundle's files without a cluster.

    ``namespace`` None: not known; the plan then shows objects that name none without.
    """
    from fleetbeat.decisions.builtin_kinds import assume
    from fleetbeat.decisions.examine import examine
    from fleetbeat.decisions.manifests import bundle_kinds, place, scan

    read = scan(files, path=path)
    assumed = assume(read.documents)
    placed = place(assumed.known, apis=assumed.apis, namespace=namespace)
    unreadable = (*read.problems, *assumed.problems, *placed.problems, *placed.absent)
    examined = examine(placed.manifests, complete=not unreadable)
    problems = (*unreadable, *examined.problems, *examined.remarks)
    notes = [
        *(f"{where} is not applied: {why}" for where, why in read.skipped),
        *assumed.notes,
        *placed.warnings,
        *examined.told,
    ]
    kinds = (*assumed.apis.resources, *bundle_kinds(read.documents))
    namespaced = {(kind.group, kind.kind) for kind in kinds if kind.namespaced}
    if homeless := sum(not m.id.namespace and m.id[:2] in namespaced for m in placed.manifests):
        notes.append(f"objects without a namespace: {homeless}. A sync gives them its application's; see --namespace")
    if ours := sum(
        str(document.body.get("apiVersion", "")).startswith("fleetbeat.dev/") for document in read.documents
    ):
        notes.append(
            f"documents of Fleetbeat's catalog: {ours}. They are not synced; beat and `fleetbeat up` read them"
        )
    if not read.documents and not problems:
        notes.append("there is no object in it")
    in_order = sorted(problems, key=lambda problem: (problem.file, problem.document or 0))
    return Findings(examined.stages, tuple(in_order), tuple(notes))


def as_json(found: Findings) -> dict[str, Any]:
    """``plan``: one entry per object and phase, in order. ``document`` is null where a whole file is meant."""
    return {
        "plan": [
            {"phase": stage.phase, "wave": stage.wave, **obj._asdict()} for stage in found.stages for obj in stage.ids
        ],
        "problems": [
            {"file": p.file, "document": p.document, "object": p.object, "message": p.message} for p in found.problems
        ],
    }


def _tell(found: Findings) -> None:
    from fleetbeat.decisions.waves import render

    if found.stages:
        say(render(found.stages))
    for note in found.notes:
        say(f"note: {note}", err=True)
    for problem in found.problems:
        say(click.style("error: ", fg="red") + problem, err=True)


def _files(source: Path, limits: Bundles) -> dict[str, bytes]:
    """What a bundle made of ``source`` would hold; packed and unpacked again, since a sync sees it no other way."""
    from fleetbeat.clients import bundle_folder

    if str(source) == "-":
        return {"stdin.yaml": sys.stdin.buffer.read()}
    if not source.is_dir():
        if not source.name.lower().endswith((".yaml", ".yml", ".json")):
            raise click.UsageError(f"{source}: manifests are files that end in .yaml, .yml or .json")
        try:
            if kind := bundle_folder.why_no_file(source.stat().st_mode):
                raise click.UsageError(f"{source} is {kind}; give a file or a folder")  # a pipe may never end
            return {source.name: source.read_bytes()}
        except OSError as error:
            raise bundle_folder.unreadable(error, source) from None
    from fleetbeat.clients.oci_push import bundle
    from fleetbeat.decisions.bundles import unpack

    layer = bundle(source, limits)
    return unpack(layer, max_unpacked=limits.max_unpacked, max_entries=limits.max_entries)
