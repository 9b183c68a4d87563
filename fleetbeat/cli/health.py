"""``fleetbeat health``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.output import output_option, table, word, write
from fleetbeat.errors import CatalogError, ConfigurationError
from fleetbeat.model import Body, HealthRule, ObjectId, Origin
from fleetbeat.model_results import WELL, Health

_ANYWHERE = Origin("", 0, 0)
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command(
    epilog="""\b
Examples:
  kubectl get deployments,pods -A -o yaml | fleetbeat health -
  fleetbeat health live.yaml -o json | jq -r '.[] | select(.status == "Degraded") | .message'
  kubectl get carts -A -o yaml | fleetbeat health - --rules catalog/shop.yaml
Exit code 0: everything is Healthy or Suspended; 1: something is not; 3: a file cannot be read."""
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option("--rules", type=_FILE, help="healthCheckExprs to judge by: an Application, or the list alone.")
@output_option
@click.pass_context
def health(ctx: click.Context, files: Sequence[Path], rules: Path | None, output: str) -> None:
    """Judge live objects in files as a sync would, without a server.

    FILE holds objects as the API server gives them, lists included ("-" is standard input). CustomResourceDefinitions
    and StorageClasses among them are used as well: they tell whether a kind reports a status, and which claims wait
    for a Pod. Ages are told by this machine's clock. An object with the annotation
    argocd.argoproj.io/ignore-healthcheck: "true" is shown, and does not count.
    """
    judged = judge(list(_objects(files)), read_rules(rules) if rules else (), datetime.now(UTC))
    if output == "table":
        if judged:
            rows = [[str(one.id), word(one.health.status), one.message] for one in judged]
            table(["OBJECT", "HEALTH", "MESSAGE"], rows)
    else:
        write([one.to_json() for one in judged], output)
    if not judged:
        click.echo("note: there is no object in it", err=True)
    ctx.exit(Exit.OK if all(one.ignored or one.health.status in WELL for one in judged) else Exit.FAILED)


@dataclass(frozen=True)
class Judged:
    id: ObjectId
    health: Health
    ignored: bool = False  #: its annotation says that it does not count

    @property
    def message(self) -> str:
        text = self.health.message
        return f"{text} (does not count)".lstrip() if self.ignored else text

    def to_json(self) -> dict[str, Any]:
        return {**self.id._asdict(), "status": self.health.status, "message": self.message}


def judge(objects: Sequence[Body], rules: Sequence[HealthRule], now: datetime) -> list[Judged]:
    """In the order of ``objects``, which have an apiVersion, a kind and a name."""
    from fleetbeat.decisions import health as rulebook
    from fleetbeat.decisions.health.custom import by_kind
    from fleetbeat.decisions.manifests import RawManifest, bundle_kinds

    has_status = rulebook.reporting(bundle_kinds([RawManifest(body, _ANYWHERE) for body in objects]))
    late = {b["metadata"]["name"] for b in objects if b["kind"] == "StorageClass" and rulebook.binds_late(b)}
    own = by_kind(rules)
    found = []
    for body in objects:
        metadata = body["metadata"]
        group = body["apiVersion"].rpartition("/")[0]
        state = rulebook.health(
            body,
            rules=own,
            has_status=has_status.get((group, body["kind"])),
            now=now,
            late_binding=late,
        )
        key = ObjectId(group, body["kind"], str(metadata.get("namespace") or ""), metadata["name"])
        found.append(Judged(key, state, rulebook.is_ignored(body)))
    return found


def read_rules(file: Path) -> tuple[HealthRule, ...]:
    """The rules of every document: a list of them, a mapping with ``healthCheckExprs``, or one with it in ``spec``.

    So an Application of the catalog is read as it is, and a Kustomization of Flux as well. Raises CatalogError.
    """
    from fleetbeat.catalog_fields import Fields, Problems
    from fleetbeat.catalog_health import health_rules

    found: list[HealthRule] = []
    for where, value in _documents(file):
        problems = Problems(where)
        if isinstance(value, list):
            fields = Fields({"healthCheckExprs": value}, "", problems)
        else:
            holder = value if isinstance(value, dict) else {}
            inner = isinstance(holder.get("spec"), dict) and "healthCheckExprs" not in holder
            fields = Fields(holder["spec"] if inner else holder, "spec" if inner else "", problems)
        found += health_rules(fields)
        problems.check()
    if not found:
        raise CatalogError(
            [f"{_name(file)}: holds no rule. Expected is healthCheckExprs: [{{apiVersion, kind, current}}]"]
        )
    return tuple(found)


def _objects(files: Sequence[Path]) -> Iterator[Body]:
    """Lists are taken apart. Raises ConfigurationError for what is no object, or when a file holds nothing at all."""
    from fleetbeat.decisions import manifest_body

    for file in files:
        empty = True
        for where, value in _documents(file):
            empty = False
            for body, item in manifest_body.objects(value):
                if problem := _shape(body):
                    raise ConfigurationError(f"{where}{item}: {problem}")
                yield body
        if empty:  # not "all is well": most likely the command in front of the pipe has failed
            raise ConfigurationError(f"{_name(file)}: is empty. Expected are objects, e.g. of kubectl get -o yaml")


def _documents(file: Path) -> Iterator[tuple[str, Any]]:
    """``live.yaml, document 2 (line 14)`` and its value; empty documents are left out."""
    from fleetbeat.decisions import goyaml

    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        for document in goyaml.load_all(text):
            if document.value is not None:
                yield f"{_name(file)}, document {document.number} (line {document.line})", document.value
    except goyaml.YamlProblem as problem:
        raise ConfigurationError(f"{_name(file)}, line {problem.line}: {problem.message}") from problem
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error


def _shape(body: object) -> str:
    if not isinstance(body, dict):
        return "must be an object with apiVersion, kind and metadata"
    for name in ("apiVersion", "kind"):
        if not isinstance(body.get(name), str) or not body[name]:
            return f"{name}: missing. Expected is an object as the API server gives it"
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"{body['kind']}: metadata.name: missing. Expected is an object as the API server gives it"
    return ""


def _name(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)
