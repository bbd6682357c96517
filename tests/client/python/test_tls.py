"""Encrypted connections, with the certificates of the C++ tests."""

import re
from concurrent import futures
from pathlib import Path

import grpc
import pytest

import attnd

HEADER = Path(__file__).resolve().parents[1] / "test_certificates.h"
NAME = "server.attnd.test"


def pem(name):
    found = re.search(rf'{name}\[\] =\s*R"\((.*?)\)"', HEADER.read_text(), re.DOTALL)
    return found[1]


AUTHORITY = pem("kTestAuthority")


class Health(grpc.GenericRpcHandler):
    """Serving, by the health protocol's Check alone."""

    def service(self, call):
        if not call.method.endswith("/Check"):
            return None
        return grpc.unary_unary_rpc_method_handler(lambda *_: b"\x08\x01")


@pytest.fixture(params=[False, True], ids=["TLS", "mTLS"])
def mutual(request):
    return request.param


@pytest.fixture
def address(mutual):
    credentials = grpc.ssl_server_credentials(
        [(pem("kTestServerKey").encode(), pem("kTestServerCertificate").encode())],
        AUTHORITY.encode(),
        require_client_auth=mutual,
    )
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([Health()])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def health(address, **tls):
    with attnd.Client(address, tls=attnd.Tls(**tls), reconnect=0, timeout=20) as client:
        return client.health()


def test_identities_are_checked_on_both_sides(address, mutual):
    trusting = dict(root_certificates=AUTHORITY, server_name=NAME)
    own = dict(
        certificate_chain=pem("kTestClientCertificate"),
        private_key=pem("kTestClientKey").encode(),
    )
    assert health(address, **trusting, **own) == "SERVING"
    if mutual:
        with pytest.raises(attnd.Unreachable):
            health(address, **trusting)
    else:
        assert health(address, **trusting) == "SERVING"


def test_strangers_and_other_names_are_refused(address):
    for tls in (
        dict(server_name=NAME),
        dict(root_certificates=AUTHORITY, server_name="another.attnd.test"),
    ):
        with pytest.raises(attnd.Unreachable):
            health(address, **tls)


def test_plain_text_is_not_answered(address):
    with attnd.Client(address, reconnect=0, timeout=20) as client:
        with pytest.raises(attnd.Unreachable):
            client.health()
