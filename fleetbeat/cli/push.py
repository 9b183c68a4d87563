"""``fleetbeat push``."""

from __future__ import annotations

from pathlib import Path

import click

from fleetbeat.cli import git
from fleetbeat.cli.session import Session

_OCI = "org.opencontainers.image."


@click.command(
    epilog="""\b
Examples:
  fleetbeat push deploy/ registry.example.com/shop/manifests:stable
  fleetbeat push deploy/ 127.0.0.1:5000/shop/manifests:v2 --plain-http
  fleetbeat push deploy/ oci-layout:/srv/bundles/shop:v2"""
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("reference")
@click.option("--plain-http", is_flag=True, help="Speak HTTP to the registry instead of HTTPS.")
@click.option("--source", help="URL of the source repository, instead of git's remote.")
@click.option("--revision", help="Like main@sha1:<40 hex>, instead of git's HEAD.")
@click.pass_obj
def push(
    session: Session, directory: Path, reference: str, plain_http: bool, source: str | None, revision: str | None
) -> None:
    """Push a folder of manifests to an OCI registry.

    DIRECTORY becomes one layer, the same bytes for the same files, which Argo CD and Flux can read too. REFERENCE is
    registry/repository:tag. The commit is taken from git and noted in the bundle's annotations, so that a cluster can
    be traced back to it. Logs in with the credentials of docker's config. Prints the reference with its digest.
    """
    commit = git.look(directory)
    annotations = annotations_of(commit, source, revision)
    if commit is not None and commit.dirty and revision is None:
        click.echo(
            "warning: the folder has changes that are not committed; the bundle's revision says so (-dirty)", err=True
        )
    if commit is None and revision is None:
        click.echo(
            "warning: the bundle names no commit, as git knows none of this folder. Give --source and --revision",
            err=True,
        )
    pushed = session.push(directory, reference, annotations=annotations, plain_http=plain_http)
    click.echo(f"{reference}@{pushed.digest}")


def annotations_of(commit: git.Commit | None, source: str | None, revision: str | None) -> dict[str, str]:
    """OCI annotations; what is not known is left out, never guessed."""
    found: dict[str, str] = {}
    if commit is not None:
        found["source"] = commit.source
        found["revision"] = commit.revision + ("-dirty" if commit.dirty else "")
        found["created"] = commit.created
    if source is not None:
        found["source"] = git.without_credentials(source)
    if revision is not None:
        found["revision"] = revision
        if commit is None or commit.revision != revision:
            found.pop("created", None)  # that was the time of another commit
    return {_OCI + name: value for name, value in found.items() if value}
