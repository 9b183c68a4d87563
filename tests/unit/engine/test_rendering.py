"""From the bytes of a bundle to manifests: what the objects' own marks make of a sync before it is planned."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.decisions.bundles import pack
from fleetbeat.engine.rendering import Rendered, render
from fleetbeat.errors import ManifestError
from fleetbeat.model import ApiSet, Application, Destination, Source

APPLICATION = Application("shop", Source("registry.example.com/shop"), Destination("local", "shop"))


class Cluster:
    """Serves what Kubernetes serves."""

    def api_set(self, **_: object) -> ApiSet:
        return BUILTIN


def job(name: str, **annotations: str) -> str:
    marks = "".join(
        f"\n    {key.replace('__', '/').replace('_', '-')}: {value!r}" for key, value in annotations.items()
    )
    return f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:{marks or ' {}'}\n"


def rendered(*documents: str) -> Rendered:
    layer = pack({"jobs.yaml": "---\n".join(documents).encode()})
    return render(layer, APPLICATION, Cluster(), max_unpacked=10**6, max_entries=100)  # type: ignore[arg-type]


def refusal(*documents: str) -> list[str]:
    with pytest.raises(ManifestError) as error:
        rendered(*documents)
    return error.value.problems


def test_hooks_are_kept_with_the_rest_and_those_of_no_sync_are_told():
    found = rendered(
        job("web"),
        job("migrate", **{"argocd.argoproj.io__hook": "PreSync"}),
        job("farewell", **{"helm.sh__hook": "pre-delete"}),
    )
    assert [manifest.id.name for manifest in found.manifests] == ["web", "migrate", "farewell"]
    assert found.said == (
        "jobs.yaml, document 3 (line 14): Job shop/farewell is run by no sync: it is a PreDelete hook",
    )


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({"argocd.argoproj.io__hook": "Skip"}, "annotation argocd.argoproj.io/hook: Skip"),
        ({"helm.sh__hook": "test"}, "annotation helm.sh/hook: test, which is for `helm test`"),
    ],
    ids=["skip", "helm test"],
)
def test_what_no_sync_runs_is_left_out_and_told(annotations, why):
    found = rendered(job("web"), job("idle", **annotations))
    assert found.said == (f"jobs.yaml, document 2 (line 7): Job shop/idle is not applied: {why}",)


def test_values_that_cannot_be_read_are_refused():
    """All at once, each with its place, as everything else that is wrong with a bundle."""
    problems = refusal(
        job("a", **{"argocd.argoproj.io__sync_options": "prune=false"}),
        job("b", **{"argocd.argoproj.io__sync_wav": "1"}),
        job("c", **{"config.kubernetes.io__depends_on": "batch/namespaces/shop/Job/d"}),
    )
    assert [problem.partition(": ")[0] for problem in problems] == [
        "jobs.yaml, document 1 (line 1)",
        "jobs.yaml, document 2 (line 8)",
        "jobs.yaml, document 3 (line 15)",
    ]


def test_marks_of_a_later_version_are_told_and_do_no_harm():
    found = rendered(job("a", **{"argocd.argoproj.io__sync_options": "Shiny=true"}))
    [said] = found.said
    assert "unknown option 'Shiny=true'" in said
    assert [m.id.name for m in found.manifests] == ["a"]
