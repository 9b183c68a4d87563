"""A directory of YAML → the catalog, its documents and digest; or every mistake of all files."""

import os
import re
from pathlib import Path

import pytest

from fleetbeat.catalog import MAX_FILE, Loaded, load, parse_application, parse_cluster
from fleetbeat.errors import CatalogError, ConfigurationError

HEAD = "apiVersion: fleetbeat.dev/v1alpha1\n"


def app(name: str, cluster: str = "prod", source: str = "oci: registry.example.com/shop", more: str = "") -> str:
    return (
        f"{HEAD}kind: Application\nmetadata: {{name: {name}}}\n"
        f"spec:\n  source: {{{source}}}\n  destination: {{cluster: {cluster}}}\n{more}"
    )


def cluster(name: str = "prod", spec: str = "{server: 'https://prod:6443', token: {env: T}}") -> str:
    return f"{HEAD}kind: Cluster\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def write(folder: Path, **files: str) -> Path:
    """Files by name with "__" for "/" and the ending .yaml added."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def problems(folder: Path) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        load(folder)
    return caught.value.problems


def test_files_below_the_folder_are_read_whatever_they_are_called(tmp_path: Path) -> None:
    write(tmp_path, clusters=cluster(), apps__web__shop=app("shop"), apps__two=f"{app('one')}---\n{app('two')}")
    (tmp_path / "SHOUT.YML").write_text(app("shout"))
    (tmp_path / "notes.txt").write_text("no: [yaml")
    (tmp_path / ".hidden.yaml").write_text("no: [yaml")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.yaml").write_text("no: [yaml")
    loaded = load(tmp_path)
    assert set(loaded.catalog.applications) == {"shop", "one", "two", "shout"}
    assert set(loaded.catalog.clusters) == {"prod"}
    assert set(loaded.documents) == {f"Application/{n}" for n in ("shop", "one", "two", "shout")} | {"Cluster/prod"}


def test_an_empty_folder_is_an_empty_catalog(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert not loaded.catalog.applications
    assert not loaded.documents


def test_empty_documents_are_nothing(tmp_path: Path) -> None:
    assert not load(write(tmp_path, x="---\n---\n# only a comment\n---\n")).documents


@pytest.mark.parametrize(("name", "says"), [("missing", "No such file or directory"), ("file", "Not a directory")])
def test_a_folder_that_is_none_is_a_configuration_error(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=f"catalog .*{name}: {says}"):
        load(tmp_path / name)


def test_documents_parse_to_the_same_values_elsewhere(tmp_path: Path) -> None:
    """What a worker reads back from Redis gives what the beat read from the folder."""
    loaded = load(write(tmp_path, all=f"{cluster()}---\n{app('shop', source='oci: ./bundle, ca: {file: ca.pem}')}"))
    assert parse_application(loaded.documents["Application/shop"], "x") == loaded.catalog.applications["shop"]
    assert parse_cluster(loaded.documents["Cluster/prod"], "x") == loaded.catalog.clusters["prod"]


def test_the_examples_of_the_documentation_are_a_catalog(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    documents = set(load(write(tmp_path, all="---\n".join(examples))).documents)
    applications = ("shop", "carts", "ignoring", "yielding", "reports")
    assert documents == {*(f"Application/{name}" for name in applications), "Cluster/prod-eu"}


def test_the_catalog_of_the_example_loads() -> None:
    example = Path(__file__).parents[2] / "fleetbeat" / "local" / "example" / "catalog"
    assert "shop" in load(example).catalog.applications


# ── where a mistake is ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_mistake_names_file_document_line_object_and_field(tmp_path: Path) -> None:
    write(tmp_path, clusters=cluster(), apps__shop=f"{app('one')}---\n{app('shop', more='  sync: {selfheal: true}')}")
    assert problems(tmp_path) == [
        "apps/shop.yaml, document 2 (line 8), Application shop: "
        "spec.sync.selfheal: unknown field. Did you mean selfHeal?"
    ]


def test_mistakes_of_all_files_are_told_at_once_in_the_order_of_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=app("one", more="  suspend: maybe\n"),
        b="x: [",
        c=cluster(spec="{}"),
        d=f"{HEAD}kind: Fleet\nmetadata: {{name: p}}\n",
        e="- just\n- a list\n",
        f=f"{HEAD}kind: Aplication\n",
        g="metadata: {name: x}\n",
        h=f"{HEAD}kind: Deployment\n",
    )
    found = problems(tmp_path)
    assert [sentence[0] for sentence in found] == list("abcdefgh")
    assert found[1].startswith("b.yaml, line ")
    assert found[3] == "d.yaml, document 1 (line 1): kind: Fleet is not supported by this version"
    assert found[4].endswith("must be a mapping with apiVersion, kind, metadata and spec")
    assert found[5].endswith("Did you mean Application?")
    assert found[6].endswith("kind: missing: one of Application, Cluster, Project")
    assert found[7].endswith("Known: Application, Cluster, Project")


def test_a_name_used_twice_names_both_places(tmp_path: Path) -> None:
    write(tmp_path, clusters=cluster(), a=app("shop"), b=f"---\n{app('other')}---\n{app('shop')}")
    assert problems(tmp_path) == [
        "b.yaml, document 2 (line 9), Application shop: metadata.name: the same name is used in "
        "a.yaml, document 1 (line 1). Names are unique within a kind"
    ]


def test_an_application_and_a_cluster_may_share_a_name(tmp_path: Path) -> None:
    assert len(load(write(tmp_path, a=app("prod"), b=cluster("prod"))).documents) == 2


@pytest.mark.parametrize(
    ("clusters", "ending"),
    [
        (cluster("prod-eu"), 'no Cluster is called "prod-ue". Did you mean prod-eu?'),
        (cluster("zulu"), 'no Cluster is called "prod-ue". Known: zulu'),
        ("", 'no Cluster is called "prod-ue". This catalog has no Cluster at all'),
    ],
    ids=["near", "far", "none"],
)
def test_a_cluster_that_does_not_exist(tmp_path: Path, clusters: str, ending: str) -> None:
    (sentence,) = problems(write(tmp_path, a=app("shop", cluster="prod-ue"), c=clusters))
    assert sentence == f"a.yaml, document 1 (line 1), Application shop: spec.destination.cluster: {ending}"


def test_a_cluster_with_a_mistake_still_exists(tmp_path: Path) -> None:
    (sentence,) = problems(write(tmp_path, a=app("shop"), c=cluster(spec="{context: x, servr: y}")))
    assert "spec.servr" in sentence


SHOP = "a.yaml, document 1 (line 1), Application shop"


def depending(name: str, *needs: str) -> str:
    return app(name, more=f"  dependsOn: [{', '.join(f'{{name: {need}}}' for need in needs)}]\n")


def test_applications_may_depend_on_each_other_across_files(tmp_path: Path) -> None:
    folder = write(tmp_path, a=depending("shop", "database", "queue"), b=app("database"), q=app("queue"), c=cluster())
    assert load(folder).catalog.applications["shop"].depends_on == ("database", "queue")


@pytest.mark.parametrize(
    ("files", "sentences"),
    [
        (
            {"a": depending("shop", "databse"), "b": app("database")},
            [f'{SHOP}: spec.dependsOn[0].name: no Application is called "databse". Did you mean database?'],
        ),
        (
            {"a": depending("shop", "shop")},
            ["a.yaml, document 1 (line 1), Application shop: spec.dependsOn goes in a ring: shop → shop"],
        ),
        (
            {"a": depending("b", "c"), "b": depending("c", "a"), "d": depending("a", "b"), "e": depending("free", "a")},
            ["d.yaml, document 1 (line 1), Application a: spec.dependsOn goes in a ring: a → b → c → a"],
        ),
    ],
    ids=["misspelt", "itself", "a ring of three"],
)
def test_dependencies_that_can_never_be_met(tmp_path: Path, files: dict[str, str], sentences: list[str]) -> None:
    assert problems(write(tmp_path, zz=cluster(), **files)) == sentences


def test_a_dependency_with_a_mistake_still_exists(tmp_path: Path) -> None:
    """One mistake, one sentence."""
    broken = app("database", source="oci: registry.example.com/shop, tga: x")
    (sentence,) = problems(write(tmp_path, a=depending("shop", "database"), b=broken, c=cluster()))
    assert "spec.source.tga" in sentence


def test_a_duplicate_key_is_refused_with_its_line(tmp_path: Path) -> None:
    (sentence,) = problems(write(tmp_path, c=cluster() + "kind: Cluster\n"))
    assert sentence.startswith("c.yaml, line 5: ")


@pytest.mark.parametrize(
    "text",
    [
        "token: {inline: hunter2",
        "token: 'hunter2",
        "token: hunter2: x",
        "token: [hunter2, *b]",
    ],
)
def test_a_syntax_error_does_not_show_the_text_around_it(tmp_path: Path, text: str) -> None:
    """Field case l9."""
    (sentence,) = problems(write(tmp_path, a=f"spec:\n  {text}\n"))
    assert "hunter2" not in sentence


# ── files that are not plain files ───────────────────────────────────────────────────────────────────────────────


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    """A kubelet mounts `..2026_…/` beside `..data` and links to both files and folders inside it."""
    real = tmp_path / "..2026_11_30"
    write(real, clusters=cluster(), apps__shop=app("shop"))
    (tmp_path / "..data").symlink_to(real.name)
    (tmp_path / "clusters.yaml").symlink_to("..data/clusters.yaml")
    (tmp_path / "apps").symlink_to("..data/apps")
    assert set(load(tmp_path).documents) == {"Application/shop", "Cluster/prod"}


def test_a_folder_that_contains_itself_ends(tmp_path: Path) -> None:
    write(tmp_path, c=cluster())
    (tmp_path / "again").symlink_to(tmp_path)
    assert set(load(tmp_path).documents) == {"Cluster/prod"}


def test_names_that_no_message_could_hold_are_told(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    try:
        (tmp_path / os.fsdecode(b"\xfe")).mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    for place in (b"\xfe/a.yaml", b"\xff.yaml"):
        Path(os.fsdecode(folder + b"/" + place)).write_text(cluster())
    told = "this name is not UTF-8. Rename it"
    assert problems(tmp_path) == [f"\\xfe: {told}", f"\\xff.yaml: {told}"]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").symlink_to("nowhere")
    with (tmp_path / "c.yaml").open("wb") as file:
        file.truncate(MAX_FILE + 1)
    (tmp_path / "d.yaml").write_bytes(b"a: \xff\n")
    assert [sentence.partition("; ")[0] for sentence in problems(tmp_path)] == [
        "a.yaml: cannot be read: not a regular file",
        "b.yaml: cannot be read: No such file or directory",
        "c.yaml: cannot be read: larger than 4 MiB, the limit for one catalog file",
        "d.yaml, line 1: byte 0xff is not UTF-8",
    ]


# ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "keys", "expected"),
    [
        ("{server: 'https://x', token: {file: t}}", ("token", "file"), "{folder}/t"),
        ("{server: 'https://x', token: {file: ../t}}", ("token", "file"), "{root}/t"),
        ("{server: 'https://x', token: {file: /run/t}}", ("token", "file"), "/run/t"),
        ("{server: 'https://x', token: {env: T}, ca: {file: ./ca}}", ("ca", "file"), "{folder}/ca"),
        (
            "{server: 'https://x', clientCertificate: {file: c}, clientKey: {file: k}}",
            ("clientKey", "file"),
            "{folder}/k",
        ),
        ("{context: kind, kubeconfig: kube/config}", ("kubeconfig",), "{folder}/kube/config"),
        ("{context: kind, kubeconfig: ~/.kube/config}", ("kubeconfig",), "{home}/.kube/config"),
    ],
    ids=["file", "file above", "absolute file", "ca", "client key", "kubeconfig", "home"],
)
def test_paths_of_a_cluster_are_meant_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, keys: tuple[str, ...], expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    value = load(write(tmp_path, clusters__prod=cluster(spec=spec))).documents["Cluster/prod"]["spec"]
    for key in keys:
        value = value[key]
    assert value == expected.format(folder=tmp_path / "clusters", root=tmp_path, home="/home/me")


@pytest.mark.parametrize(
    ("oci", "expected"),
    [
        ("./bundle", "{folder}/bundle"),
        ("../bundle", "{root}/bundle"),
        ("/srv/bundle", "/srv/bundle"),
        ("oci-layout:bundle", "oci-layout:{folder}/bundle"),
        ("oci-layout:/srv/bundle", "oci-layout:/srv/bundle"),
        ("registry.example.com/shop", "registry.example.com/shop"),
    ],
)
def test_the_path_of_a_layout_is_meant_from_its_file(tmp_path: Path, oci: str, expected: str) -> None:
    loaded = load(write(tmp_path, clusters=cluster(), apps__shop=app("shop", source=f"oci: '{oci}'")))
    wanted = expected.format(folder=tmp_path / "apps", root=tmp_path)
    assert loaded.catalog.applications["shop"].source.oci == wanted
    assert loaded.documents["Application/shop"]["spec"]["source"]["oci"] == wanted


def test_a_relative_catalog_folder_still_gives_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, c=cluster(spec="{context: kind, kubeconfig: k}"))
    monkeypatch.chdir(tmp_path)
    assert load(Path()).catalog.clusters["prod"].kubeconfig == str(tmp_path / "k")


# ── digest ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_digest_follows_the_content_not_the_files(tmp_path: Path) -> None:
    one = load(write(tmp_path / "1", all=f"{cluster()}---\n{app('shop')}"))
    two = load(write(tmp_path / "2", b=f"# a note\n{cluster()}", a=app("shop")))
    other = load(write(tmp_path / "3", a=app("shop", more="  sync: {prune: false}\n"), b=cluster()))
    assert one.digest == two.digest
    assert one.digest != other.digest
    assert one.digest.startswith("sha256:")


def test_a_loaded_catalog_does_not_show_its_credentials(tmp_path: Path) -> None:
    """Field case l9."""
    loaded: Loaded = load(write(tmp_path, c=cluster(spec="{server: 'https://x', token: {inline: hunter2}}")))
    assert "hunter2" not in repr(loaded)
    assert loaded.documents["Cluster/prod"]["spec"]["token"] == {"inline": "hunter2"}
