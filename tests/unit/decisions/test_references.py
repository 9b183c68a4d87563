"""What a source string means."""

from __future__ import annotations

import pytest

from fleetbeat.decisions import references
from fleetbeat.decisions.references import Layout, Repository
from fleetbeat.errors import ConfigurationError

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("registry.example.com/shop/manifests", Repository("registry.example.com", "shop/manifests")),
        ("oci://registry.example.com/shop", Repository("registry.example.com", "shop")),
        ("registry.example.com:5000/a/b__c:v1", Repository("registry.example.com:5000", "a/b__c", "v1")),
        ("localhost/a:1", Repository("localhost", "a", "1")),
        ("[::1]:5000/a", Repository("[::1]:5000", "a")),
        (f"r.example/a@{DIGEST}", Repository("r.example", "a", "", DIGEST)),
        (f"r.example/a:v1@{DIGEST}", Repository("r.example", "a", "v1", DIGEST)),
        ("oci-layout:/srv/l", Layout("/srv/l")),
        ("oci-layout:relative:v1", Layout("relative", "v1")),
        ("/srv/l:v1", Layout("/srv/l", "v1")),
        ("./l", Layout("./l")),
        ("../l:1.0", Layout("../l", "1.0")),
        (".", Layout(".")),
        (f"/srv/l@{DIGEST}", Layout("/srv/l", "", DIGEST)),
        ("/srv/a:b/l", Layout("/srv/a:b/l")),
    ],
)
def test_meaning(text: str, meaning: Repository | Layout) -> None:
    assert references.parse(text) == meaning


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("shop/manifests", "name the registry"),
        ("manifests", "name the registry"),
        ("", "name the registry"),
        ("https://r.example/a", "without a scheme"),
        ("r.example/Shop", "not a repository name"),
        ("r.example/", "not a repository name"),
        ("r.example/a/../b", "not a repository name"),
        ("r.example/a:", "not a tag"),
        ("r.example/a:-x", "not a tag"),
        ("r.example/a@sha256:12", "64 lower-case hex"),
        ("r.example/a@sha512:12", "64 lower-case hex"),
        ("oci-layout:", "no path"),
    ],
)
def test_refused(text: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        references.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "oci://user:hunter2@registry.example/x",
        "user:hunter2@registry.example/x:v1",
        f"user:hunter2@registry.example/x@{DIGEST}",
        "https://user:hunter2@registry.example/x",
        "oci://us/er:hunter2@registry.example/x",
        "oci://user:sha256hunter2@registry.example/x",
        "oci://user:hunter2@sha256.example/x",
        "oci://user:a@hunter2@registry.example/x",
        "oci-layout:user:hunter2@x",
    ],
)
def test_credentials_are_refused_and_not_repeated(text: str) -> None:
    """Field case l9."""
    with pytest.raises(ConfigurationError) as caught:
        references.parse(text)
    assert "hunter2" not in str(caught.value)


def test_build_data_in_a_tag() -> None:
    assert references.tag_of("1.0.0+a+b") == "1.0.0_a+b"
