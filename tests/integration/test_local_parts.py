"""The local parts themselves: they start, serve, survive what tests do to them and leave nothing behind."""

from __future__ import annotations

import base64
import ssl
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
import redis
import urllib3
import yaml
from redis.backoff import NoBackoff
from redis.retry import Retry
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import LocalError
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry


def test_redis_keeps_synced_data_over_sigkill_on_the_same_port() -> None:
    with RedisServer(fsync="always") as server, redis.Redis.from_url(server.url, socket_timeout=60) as client:
        client.set("a", "1")
        server.kill()
        assert not server.alive
        server.start()
        assert client.get("a") == b"1"
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
    assert not server.folder.exists()


def test_redis_password_is_asked_for_and_not_shown() -> None:
    with RedisServer(password="hush-1") as server:
        with redis.Redis.from_url(server.url, socket_timeout=60) as client:
            assert client.ping()
        stranger = redis.Redis(port=server.port, socket_timeout=60, retry=Retry(NoBackoff(), 0))
        with stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        assert "hush-1" not in repr(server)
        assert "hush-1" not in Path(f"/proc/{server.pid}/cmdline").read_text()


def test_redis_url_is_empty_at_the_start_of_a_test(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, socket_timeout=60) as client:
        assert client.dbsize() == 0


def test_registry_serves_anonymously(registry: Registry) -> None:
    answer = urllib3.request("GET", f"http://{registry.host}/v2/", retries=False)
    assert answer.status == 200


def test_registry_with_users_and_its_own_certificate_authority(local_binary: Path) -> None:
    with Registry(users={"ci": "pw"}, tls=True) as server:
        assert server.ca_pem
        with urllib3.PoolManager(ca_cert_data=server.ca_pem, retries=False) as pool:
            assert pool.request("GET", f"{server.url}/v2/").status == 401
            login = {"Authorization": "Basic " + base64.b64encode(b"ci:pw").decode()}
            assert pool.request("GET", f"{server.url}/v2/", headers=login).status == 200


def test_cluster_knows_fleetbeat_as_an_rbac_user_outside_system_masters(cluster: Cluster) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    status, answer = cluster.request(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token=cluster.token
    )
    assert status == 201
    assert answer["status"]["userInfo"]["username"] == "fleetbeat"
    assert "system:masters" not in answer["status"]["userInfo"]["groups"]
    assert cluster.request("GET", "/api/v1/secrets", token=cluster.token)[0] == 200
    assert cluster.request("GET", "/api/v1/secrets", token="wrong")[0] == 401
    assert cluster.request("GET", "/version")[1]["gitVersion"] == "v1.36.1"


def test_cluster_audit_log_has_a_request_as_soon_as_it_is_answered(cluster: Cluster, namespace: str) -> None:
    before = cluster.audit_position()
    body = {"metadata": {"name": "a"}, "data": {"k": "v-marker"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert cluster.request("POST", path, body, user_agent="person")[0] == 201
    mine = [event for event in cluster.audit(before) if event.get("userAgent") == "person"]
    assert [(event["verb"], event["objectRef"]["resource"]) for event in mine] == [("create", "configmaps")]
    assert mine[0]["responseStatus"]["code"] == 201
    assert "v-marker" not in cluster.audit_log.read_text()


def test_cluster_kubeconfig_names_context_and_logs_in(cluster: Cluster) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    assert config["current-context"] == "test"
    assert [user["name"] for user in config["users"]] == ["test", "test-admin"]
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0


def test_two_clusters_side_by_side_and_one_restarted_in_place(cluster: Cluster, local_binary: Path) -> None:
    with Cluster(name="second") as second:
        made = second.request("POST", "/api/v1/namespaces", {"metadata": {"name": "only-here"}})
        assert made[0] == 201
        assert cluster.request("GET", "/api/v1/namespaces/only-here")[0] == 404
        second.kill()
        second.restart()
        assert second.request("GET", "/api/v1/namespaces/only-here")[0] == 200
        pids = second.pids
    assert not second.folder.exists()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_workloads_run_where_controllers_are(cluster_with_controllers: Cluster) -> None:
    cluster = cluster_with_controllers
    home = f"workloads-{uuid.uuid4().hex[:6]}"  # the cluster is shared with other tests
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    assert cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": home}})[0] == 201
    path = f"/apis/apps/v1/namespaces/{home}/deployments"
    assert cluster.request("POST", path, {"metadata": {"name": "web"}, "spec": spec})[0] == 201
    wait_for(
        lambda: cluster.request("GET", f"{path}/web")[1]["status"].get("availableReplicas") == 2,
        what="both replicas to be available",
        timeout=120,
    )
    fields = cluster.request("GET", f"{path}/web")[1]["metadata"]["managedFields"]
    assert "kube-controller-manager" in {field["manager"] for field in fields}  # as in a real cluster
    cluster.request("DELETE", f"/api/v1/namespaces/{home}")
    wait_for(
        lambda: cluster.request("GET", f"/api/v1/namespaces/{home}")[0] == 404, timeout=120, what="the namespace to go"
    )


def test_the_node_stays_ready(cluster_with_controllers: Cluster) -> None:
    """It renews a lease: without one the controllers take it for dead after 50 s, and no pod gets ready again."""

    def renewed() -> str:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        leases = cluster_with_controllers.request("GET", path)[1]["items"]
        return leases[0]["spec"].get("renewTime", "") if leases else ""

    first = wait_for(renewed, what="the node's lease")
    wait_for(lambda: renewed() > first, timeout=120, every=0.5, what="its renewal")


def test_cluster_accepts_client_certificates(cluster: Cluster) -> None:
    pair = cluster.client_certificate("somebody", groups=["system:masters"])
    context = ssl.create_default_context(cadata=cluster.ca_pem)
    with NamedTemporaryFile("w") as file:  # the standard library reads client certificates from files only
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        assert pool.request("GET", f"{cluster.server}/api/v1/secrets").status == 200


def test_a_paused_cluster_holds_requests_until_resumed(local_binary: Path) -> None:
    with Cluster(name="paused") as own, ThreadPoolExecutor(1) as thread:
        own.pause()
        answer = thread.submit(own.request, "GET", "/version")
        assert not wait([answer], timeout=0.3).done
        own.resume()
        assert answer.result(timeout=60)[0] == 200


def test_a_flag_the_server_does_not_know_is_told_from_its_log(local_binary: Path, tmp_path: Path) -> None:
    own = Cluster(folder=tmp_path / "state", api_flags=["--no-such-flag"])
    with pytest.raises(LocalError, match=r"(?s)kube-apiserver ended with exit code 1 .*unknown flag: --no-such-flag"):
        own.__enter__()
    assert not own.pids
