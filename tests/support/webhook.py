"""A mutating admission webhook served by the test: the API server calls it as it would any controller's."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from fleetbeat.local.certificates import Authority

Body = dict[str, Any]
#: object → JSON patch
Mutate = Callable[[Body], list[Body]]


class Webhook:
    """``with Webhook(folder, mutate) as hook``: serves HTTPS on 127.0.0.1 until the end."""

    def __init__(self, folder: Path, mutate: Mutate) -> None:
        authority = Authority("webhook CA")
        pair = authority.server()
        chain = folder / "webhook.pem"
        chain.write_text(f"{pair.certificate}\n{pair.key}")
        self._ca = authority.pem
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(mutate))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def configuration(
        self, name: str, namespace: str, group: str, resource: str, operations: tuple[str, ...] = ("CREATE", "UPDATE")
    ) -> Body:
        """For one resource in one namespace."""
        hook = {
            "name": "injector.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._server.server_port}/",
                "caBundle": base64.b64encode(self._ca.encode()).decode(),
            },
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["*"],
                    "operations": list(operations),
                    "resources": [resource],
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,  # the most there is: this process may have to wait for its turn
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }


def _handler(mutate: Mutate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            patch = json.dumps(mutate(review["request"]["object"])).encode()
            response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch"}
            response["patch"] = base64.b64encode(patch).decode()
            answer = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            """Nothing to the terminal."""

    return Handler
