"""Bundle files → wanted objects: which files, which objects, where they go, and what is refused in which words."""

from __future__ import annotations

import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions import manifests
from fleetbeat.decisions.manifests import Resolved, bundle_kinds, digest, read, resolve
from fleetbeat.errors import FleetbeatError, ManifestError, NotYet
from fleetbeat.model import ApiResource, ApiSet, Body, Manifest, ObjectId, Origin

APIS = ApiSet(
    (
        ApiResource("", "v1", "ConfigMap", "configmaps", True),
        ApiResource("", "v1", "Namespace", "namespaces", False),
        ApiResource("", "v1", "Service", "services", True),
        ApiResource("apps", "v1", "Deployment", "deployments", True),
        ApiResource("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, preferred=False),
        ApiResource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True),
        ApiResource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False),
        ApiResource("networking.k8s.io", "v1", "Ingress", "ingresses", True),
        ApiResource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False),
    ),
    complete=True,
)


def bundle(**files: str) -> dict[str, bytes]:
    """``a_yaml="…"`` is the file a.yaml."""
    return {name.replace("_", "."): text.encode() for name, text in files.items()}


def config_map(name: str = "x", **metadata: Any) -> str:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}
    return json.dumps(body) + "\n"


def bodies(text: str) -> list[Body]:
    return [document.body for document in read({"a.yaml": text.encode()}).documents]


def problems(files: dict[str, bytes], path: str = "") -> list[str]:
    with pytest.raises(ManifestError) as caught:
        read(files, path=path)
    return caught.value.problems


def placed(text: str | dict[str, bytes], *, apis: ApiSet = APIS, namespace: str = "shop") -> Resolved:
    files = text if isinstance(text, dict) else {"a.yaml": text.encode()}
    return resolve(read(files).documents, apis=apis, namespace=namespace)


def refusal(
    text: str | dict[str, bytes],
    *,
    apis: ApiSet = APIS,
    namespace: str = "shop",
    error: type[FleetbeatError] = ManifestError,
) -> str:
    with pytest.raises(error) as caught:
        placed(text, apis=apis, namespace=namespace)
    return str(caught.value)


# ── which files ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_endings_in_any_case() -> None:
    """Field case i8."""
    files = {name: config_map().encode() for name in ("a.YAML", "b.yml", "c.Json", "deep/down/d.yaml")}
    assert [d.origin.file for d in read(files).documents] == ["a.YAML", "b.yml", "c.Json", "deep/down/d.yaml"]


def test_what_is_no_manifest_is_listed() -> None:
    """Field case i7."""
    files = {
        "README.md": b"# shop",
        "web.yaml": config_map().encode(),
        "web.yaml.bak": b"broken: [",
        "old.yaml.BAK": b"",
        ".github/workflows/ci.yml": b"on: push",
        ".hidden.yaml": b"x",
        "Makefile": b"",
    }
    result = read(files)
    assert len(result.documents) == 1
    assert dict(result.skipped) == {
        ".github/workflows/ci.yml": "hidden",
        ".hidden.yaml": "hidden",
        "Makefile": "not .yaml, .yml or .json",
        "README.md": "not .yaml, .yml or .json",
        "old.yaml.BAK": "not .yaml, .yml or .json",
        "web.yaml.bak": "not .yaml, .yml or .json",
    }


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("kustomization.yaml", "kustomize is not rendered by this version"),
        ("kustomization.yml", "kustomize"),
        ("Kustomization", "kustomize"),
        ("overlays/prod/kustomization.yaml", "overlays/prod/kustomization.yaml: kustomize"),
        ("Chart.yaml", "Helm charts are not rendered by this version"),
    ],
)
def test_what_another_tool_renders_is_refused(file: str, words: str) -> None:
    """Field case i7."""
    [problem] = problems({file: b"resources: [web.yaml]", "web.yaml": config_map().encode()})
    assert words in problem


def test_kustomization_under_another_name_is_refused() -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Component\nmetadata: {name: x}\n"
    assert "kustomize build" in problems(bundle(a_yaml=text))[0]


def test_path_is_a_folder_of_the_bundle() -> None:
    files = {
        "base/a.yaml": config_map("a").encode(),
        "prod/b.yaml": config_map("b").encode(),
        "prod/eu/c.yaml": config_map("c").encode(),
        "production/d.yaml": config_map("d").encode(),
    }
    for path in ("prod", "./prod", "prod/", "prod//"):
        assert [d.origin.file for d in read(files, path=path).documents] == ["prod/b.yaml", "prod/eu/c.yaml"]
    for path in ("", ".", "./"):
        assert len(read(files, path=path).documents) == 4


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("overlays", "path 'overlays' is not in the bundle, which has the folders base, prod"),
        ("pro", "is not in the bundle"),
        ("../etc", "leaves the bundle"),
        ("prod/../../x", "leaves the bundle"),
        ("/prod", "leaves the bundle"),
        ("prod/b.yaml", "is a file; give the folder"),
    ],
)
def test_bad_path(path: str, words: str) -> None:
    """Field case d4: a typing error must not look like an empty bundle."""
    files = {"base/a.yaml": config_map().encode(), "prod/b.yaml": config_map().encode()}
    assert words in problems(files, path)[0]


@pytest.mark.parametrize(
    "files",
    [{}, {"a.yaml": b""}, {"a.yaml": b"# nothing\n---\n# here\n"}, {"README.md": b"x"}, {"a.yaml": b"---\nnull\n"}],
)
def test_nothing_is_no_mistake_here(files: dict[str, bytes]) -> None:
    """Field case d4: what an empty bundle means is decided where things are pruned."""
    assert read(files).documents == ()


# ── which objects ────────────────────────────────────────────────────────────────────────────────────────────────


def test_origin_says_where() -> None:
    result = read({"x/a.yaml": ("# head\n---\n" + config_map("a") + "---\n\n" + config_map("b")).encode()})
    assert [d.origin for d in result.documents] == [Origin("x/a.yaml", 1, 3), Origin("x/a.yaml", 2, 6)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n",
            ["ConfigMap a", "ConfigMap b"],
            id="typed list, items without kind",
        ),
        pytest.param("apiVersion: v1\nkind: List\nitems: []\n", [], id="empty list"),
        pytest.param("apiVersion: v1\nkind: List\n", [], id="list without items"),
        pytest.param("apiVersion: v1\nkind: SecretList\nitems: null\n", [], id="null items"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- " + config_map("a") + "- apiVersion: v1\n  kind: List\n"
            "  items:\n  - " + config_map("b") + "  - {apiVersion: apps/v1, kind: DeploymentList, items: "
            "[{metadata: {name: c}}]}\n",
            ["ConfigMap a", "ConfigMap b", "Deployment c"],
            id="lists in a list",
        ),
        pytest.param(
            "apiVersion: net.example.com/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {}\n",
            ["AllowList a"],
            id="a kind that only sounds like a list",
        ),
        pytest.param(config_map("a").strip() + config_map("b"), ["ConfigMap a", "ConfigMap b"], id="JSON documents"),
    ],
)
def test_lists_are_taken_apart(text: str, names: list[str]) -> None:
    """Field case i6."""
    assert [f"{b['kind']} {b['metadata']['name']}" for b in bodies(text)] == names


def test_typed_items_get_the_version_of_the_list() -> None:
    [body] = bodies("apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n")
    assert (body["apiVersion"], body["kind"]) == ("apps/v1", "Deployment")


def test_what_the_server_owns_is_taken_out() -> None:
    """Field cases a7 and b4: an exported object."""
    exported = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "resourceVersion": "12",
            "uid": "1-2-3",
            "generation": 4,
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "managedFields": [{}],
            "selfLink": "/api",
            "deletionTimestamp": "2024-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 30,
            "finalizers": ["a.example.com/b"],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "internal.config.kubernetes.io/index": "0",
                "team": "web",
            },
        },
        "spec": {"clusterIP": "10.0.0.1"},
        "status": {"loadBalancer": {}},
    }
    assert bodies(json.dumps(exported)) == [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "finalizers": ["a.example.com/b"],
                "annotations": {"team": "web"},
            },
            "spec": {"clusterIP": "10.0.0.1"},
        }
    ]


def test_nulls_in_metadata() -> None:
    """Field case a2: null fields are absent, null values of labels are empty, the rest is left to the API server."""
    [body] = bodies(
        "apiVersion: v1\nkind: ConfigMap\ndata: null\n"
        "metadata: {name: x, namespace: null, creationTimestamp: null, annotations: null, labels: {a: }}\n"
    )
    assert body["metadata"] == {"name": "x", "labels": {"a": ""}}
    assert body["data"] is None


def test_annotations_that_become_empty_go() -> None:
    [body] = bodies(config_map(annotations={"internal.config.kubernetes.io/path": "a.yaml"}))
    assert "annotations" not in body["metadata"]
    [body] = bodies(config_map(annotations={}))
    assert body["metadata"]["annotations"] == {}


def test_local_config_is_listed_not_applied() -> None:
    local = config_map("notes", annotations={"config.kubernetes.io/local-config": "true"})
    sent = config_map("real", annotations={"config.kubernetes.io/local-config": "false"})
    result = read({"a.yaml": f"{local}---\n{sent}".encode()})
    assert [d.body["metadata"]["name"] for d in result.documents] == ["real"]
    assert result.skipped == (
        ("a.yaml, document 1 (line 1)", "ConfigMap notes is marked config.kubernetes.io/local-config"),
    )


HEAD = "apiVersion: v1\nkind: ConfigMap\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("just text", "a.yaml, document 1 (line 1): is text, not an object", id="text"),
        pytest.param("[]", "is a list, not an object", id="list"),
        pytest.param("yes", "is the boolean true, not an object", id="boolean"),
        pytest.param("image: {tag: 1}", "has no apiVersion; every document of a manifest needs one", id="values.yaml"),
        pytest.param("apiVersion: v1\nmetadata: {name: x}", "has no kind", id="no kind"),
        pytest.param("kind: ConfigMap\nmetadata: {name: x}", "ConfigMap x: has no apiVersion", id="no apiVersion"),
        pytest.param("apiVersion: 1\nkind: ConfigMap", "apiVersion is the number 1, not text; quote it", id="number"),
        pytest.param("apiVersion: a/b/c\nkind: X\nmetadata: {name: x}", "'a/b/c' is not of the form", id="slashes"),
        pytest.param("apiVersion: /v1\nkind: X\nmetadata: {name: x}", "is not of the form", id="empty group"),
        pytest.param("apiVersion: v1\nkind: ConfigMap", "metadata.name is missing", id="no metadata"),
        pytest.param(HEAD + "metadata: []", "metadata is a list", id="metadata a list"),
        pytest.param(HEAD + "metadata: {namespace: shop}", "ConfigMap shop: metadata.name is missing", id="no name"),
        pytest.param(HEAD + "metadata: {name: ''}", "metadata.name is missing", id="empty name"),
        pytest.param(HEAD + "metadata: {generateName: x-}", "metadata.generateName is for hooks only", id="generate"),
        pytest.param(HEAD + "metadata: {name: 8080}", "metadata.name is the number 8080, not text", id="name a number"),
        pytest.param(HEAD + "metadata: {name: on}", "metadata.name is the boolean true", id="name a boolean"),
        pytest.param(HEAD + "metadata: {name: a/b}", "must not be '.' or '..' or contain", id="slash in name"),
        pytest.param(HEAD + "metadata: {name: ..}", "must not be", id="dots as name"),
        pytest.param(HEAD + "metadata: {name: x, namespace: a%2fb}", "metadata.namespace 'a%2fb'", id="percent"),
        pytest.param(HEAD + "metadata: {name: x, labels: {on: yes}}", "metadata.labels: 'true' is the boo", id="label"),
        pytest.param(
            HEAD + "metadata: {name: x, annotations: {port: 80}}",
            "ConfigMap x: metadata.annotations: 'port' is the number 80, not text; quote it",
            id="annotation",
        ),
        pytest.param(HEAD + "metadata: {name: x, labels: [a]}", "metadata.labels is a list", id="labels a list"),
        pytest.param(
            HEAD + "metadata: {name: x, labels: {applyset.kubernetes.io/part-of: z}}",
            "label applyset.kubernetes.io/part-of",
            id="membership",
        ),
        pytest.param("apiVersion: v1\nkind: List\nitems: {}", "items is not a list", id="List with a mapping"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- " + config_map() + "- {apiVersion: v1, kind: List, items: [{}]}",
            "a.yaml, document 1 (line 1), item 2, item 1: has no apiVersion",
            id="item",
        ),
        pytest.param("a: 1\nb:\n\t- x", "a.yaml, line 3: ", id="tab"),
        pytest.param(
            HEAD + "metadata:\n  name: x\n  labels: {a: b}\n  labels: {c: d}", "line 6: key 'labels'", id="dup"
        ),
    ],
)
def test_refused(text: str, words: str) -> None:
    """Field cases d5, i7, i11."""
    [problem] = problems(bundle(a_yaml=text))
    assert words in problem


def test_every_problem_is_told_at_once() -> None:
    files = bundle(a_yaml="x: [", b_yaml="kind: X\n---\napiVersion: v1\n", c_yaml=config_map(), d_json="{]")
    assert [problem.split(":")[0] for problem in problems(files)] == [
        "a.yaml, line 1",
        "b.yaml, document 1 (line 1)",
        "b.yaml, document 2 (line 3)",
        "d.json, line 1",
    ]


def test_problems_are_counted_beyond_twenty() -> None:
    found = problems({f"{n:02}.yaml": b"x: [" for n in range(25)})
    assert len(found) == manifests.MAX_PROBLEMS + 1
    assert found[-1] == "and 5 more"


def test_no_value_of_a_secret_is_told() -> None:
    for data in ("password: !!int hunter2", "password: hunter2\n  password: hunter2", "password: [hunter2", "hunter2"):
        text = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: x, labels: {{a: 1}}}}\nstringData:\n  {data}\n"
        assert "hunter2" not in str(problems(bundle(a_yaml=text)))
    assert "hunter2" not in repr(read(bundle(a_yaml=config_map().replace('"1"', '"hunter2"'))))


# ── where they go ────────────────────────────────────────────────────────────────────────────────────────────────


def test_namespace_is_given_by_scope() -> None:
    role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n"
    result = placed(config_map("a") + "---\n" + config_map("b", namespace="other") + role)
    assert [m.id for m in result.manifests] == [
        ObjectId("", "ConfigMap", "shop", "a"),
        ObjectId("", "ConfigMap", "other", "b"),
        ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "r"),
    ]
    assert [m.body["metadata"].get("namespace") for m in result.manifests] == ["shop", "other", None]
    assert [m.version for m in result.manifests] == ["v1"] * 3
    assert result.warnings == ()


def test_namespace_of_a_cluster_scoped_object_is_dropped() -> None:
    """Field case i10."""
    result = placed("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, namespace: x}\n")
    assert result.manifests[0].id == ObjectId("", "Namespace", "", "shop")
    assert "namespace" not in result.manifests[0].body["metadata"]
    assert "Namespace is cluster-scoped; namespace 'x' is ignored" in result.warnings[0]


def test_no_namespace_anywhere() -> None:
    """Field case i10."""
    text = refusal(config_map(), namespace="")
    assert text.startswith("a.yaml, document 1 (line 1): ConfigMap x: names no namespace")


def test_one_object_twice_after_defaulting() -> None:
    """Field case i9."""
    files = bundle(a_yaml=config_map("x"), b_yaml=config_map("y") + "---\n" + config_map("x", namespace="shop"))
    assert refusal(files) == (
        "b.yaml, document 2 (line 3): ConfigMap shop/x: also stands in a.yaml, document 1 (line 1); keep one"
    )


def test_one_object_twice_across_versions_and_scopes() -> None:
    """Field cases d1 and i9: neither the version nor a meaningless namespace makes another object."""
    scaler = "apiVersion: autoscaling/{}\nkind: HorizontalPodAutoscaler\nmetadata: {{name: h}}\n---\n"
    assert "also stands in" in refusal(scaler.format("v1") + scaler.format("v2"))
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop%s}\n---\n"
    assert "also stands in" in refusal(space % "" + space % ", namespace: x")


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: carts.shop.example.com}}
spec:
  group: shop.example.com
  scope: {scope}
  names: {{kind: Cart, plural: carts}}
  versions: [{{name: v1, served: true}}, {{name: v1alpha1, served: false}}, {{name: v2}}]
---
"""
CART = "apiVersion: shop.example.com/{}\nkind: Cart\nmetadata: {{name: main}}\n---\n"


@pytest.mark.parametrize(("scope", "namespace"), [("Namespaced", "shop"), ("Cluster", "")])
def test_kinds_of_the_bundle_itself(scope: str, namespace: str) -> None:
    result = placed(CART.format("v1") + CRD.format(scope=scope))
    assert result.manifests[0].id == ObjectId("shop.example.com", "Cart", namespace, "main")


def test_bundle_kinds() -> None:
    raw = read(bundle(a_yaml=CRD.format(scope="Cluster"))).documents
    assert bundle_kinds(raw) == (
        ApiResource("shop.example.com", "v1", "Cart", "carts", namespaced=False, has_status=False),
        ApiResource("shop.example.com", "v2", "Cart", "carts", namespaced=False, has_status=False),
    )


@pytest.mark.parametrize("spec", ["null", "[]", "{versions: 1}", "{group: g, names: [], versions: [1, null]}"])
def test_malformed_definition_is_for_the_api_server_to_refuse(spec: str) -> None:
    text = f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: x}}\nspec: {spec}\n"
    assert len(placed(text).manifests) == 1


def named(api_version: str, kind: str) -> str:
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n---\n"


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        pytest.param(
            named("apps/v1", "Deploymnet"),
            "Deploymnet x: kind Deploymnet in apps/v1 is neither served by the cluster nor defined by the bundle",
            ManifestError,
            id="misspelt",
        ),
        pytest.param(
            named("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
            "is not served in version autoscaling/v2beta2, only in autoscaling/v1, autoscaling/v2",
            ManifestError,
            id="removed version",
        ),
        pytest.param(
            named("networking.k8s.io/v1beta1", "Ingress"), "only in networking.k8s.io/v1", ManifestError, id="k8s.io"
        ),
        pytest.param(named("v2", "ConfigMap"), "not served in version v2, only in v1", ManifestError, id="core"),
        pytest.param(CART.format("v1"), "kind Cart in shop.example.com/v1 is neither", NotYet, id="custom"),
        pytest.param(
            CRD.format(scope="Cluster") + CART.format("v3"),
            "only in shop.example.com/v1, shop.example.com/v2",
            NotYet,
            id="custom, other version",
        ),
    ],
)
def test_unknown_kind(text: str, words: str, error: type[FleetbeatError]) -> None:
    """A custom kind may be brought by another application, so time may help; nothing brings a built-in one."""
    assert words in refusal(text, error=error)


def test_unknown_kind_under_incomplete_discovery() -> None:
    partial = ApiSet(APIS.resources, complete=False)
    assert "could not list all of its APIs" in refusal(named("apps/v1", "X"), apis=partial, error=NotYet)


def test_lasting_problems_hide_none_that_may_pass() -> None:
    text = refusal(CART.format("v1") + named("apps/v1", "X") + config_map(), namespace="")
    assert [line.split(": ")[1] for line in text.splitlines()] == ["X x", "ConfigMap x", "Cart x".replace("x", "main")]


def test_raw_manifests_are_left_as_they_are() -> None:
    """One read serves several clusters."""
    raw = read(bundle(a_yaml=config_map())).documents
    before = json.dumps([d.body for d in raw])
    resolve(raw, apis=APIS, namespace="one")
    assert resolve(raw, apis=APIS, namespace="two").manifests[0].id.namespace == "two"
    assert json.dumps([d.body for d in raw]) == before


# ── digest ───────────────────────────────────────────────────────────────────────────────────────────────────────


def only(text: str) -> Manifest:
    [manifest] = placed(text).manifests
    return manifest


def test_digest_is_of_the_meaning() -> None:
    one = only("kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata: {a: '1', b: '2'}\n")
    same = only(
        '{"data":{"b":"2","a":"1"},"metadata":{"namespace":"shop","name":"x"},"apiVersion":"v1","kind":"ConfigMap"}'
    )
    other = only("kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata: {a: '1', b: '3'}\n")
    assert digest(one) == digest(same) != digest(other)
    assert digest(one).startswith("sha256:")
    assert len(digest(one)) == 71


# ── size and chance ──────────────────────────────────────────────────────────────────────────────────────────────


def test_five_thousand_objects() -> None:
    """10 MB in 5,000 objects; the budget is 4 s on the reference machine, three times that is accepted here."""
    data = "".join(f"    line {n} of a configuration text of some length\n" for n in range(40))
    files = {
        f"{n}.yaml": "---\n".join(
            f"{HEAD}metadata:\n  name: c{n}-{m}\n  labels: {{app: web}}\ndata:\n  a: |\n{data}" for m in range(50)
        ).encode()
        for n in range(100)
    }
    assert sum(map(len, files.values())) > 9_000_000
    started = time.process_time()
    result = placed(files)
    assert len({digest(m) for m in result.manifests}) == 5_000
    assert time.process_time() - started < 12


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "v1", "List", "ConfigMap", "x", "apps/v1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["apiVersion", "kind", "metadata", "name", "namespace", "items", "labels", "spec"]), inner
        )
    ),
    max_leaves=25,
)


@given(VALUES)
def test_any_value_is_placed_or_refused(value: Any) -> None:
    try:
        result = placed({"a.yaml": json.dumps(value).encode()})
    except (ManifestError, NotYet):
        return
    for manifest in result.manifests:
        assert ObjectId.from_key(manifest.id.key) == manifest.id
        orjson.dumps(manifest.body)
