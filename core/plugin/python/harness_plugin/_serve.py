"""The life of a plugin process: handshake, server, end.

This is the part of HashiCorp's go-plugin protocol that harness uses; docs/plugin-protocol.md of harness describes it.
"""

from __future__ import annotations

import base64
import concurrent.futures
import logging
import os
import sys
import tempfile
import threading
import warnings
from typing import Any, NoReturn

import grpc

from . import _certificate, backend, optimizer
from ._sessions import Sessions
from .backend import Backend
from .optimizer import Optimizer

COOKIE = ("HARNESS_PLUGIN", "5f0c4e0e0a2b4c2f9f6d1c7b8a3e2d10")  # keeps people from running a plugin by hand; not a secret
CORE_VERSION, PROTOCOL_VERSION = 1, 1
MAX_MESSAGE = 16 << 20
CALLS = 32  # that run at the same time, including those that wait for their session


def threads() -> int:
    """How many CPU threads the plugin should compute on, as set by the host."""
    return max(1, int(os.environ.get("GOMAXPROCS") or os.cpu_count() or 1))


def serve(plugin: Backend | Optimizer) -> NoReturn:
    """Serves a backend or an optimizer until the host is done with it, and ends the process.

    Standard output belongs to the handshake: what is printed from here on goes to standard error, which the host reads.
    """
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        kind = "backend" if isinstance(plugin, Backend) else "optimizer"
        sys.exit(
            f"{sys.argv[0]} is a plugin of harness, which starts it itself.\n"
            f"Name it harness-{kind}-NAME, put its folder into HARNESS_PLUGIN_PATH, and try: harness plugin verify {kind} NAME"
        )
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s: %(message)s", level=logging.INFO)
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    _watch_host()

    done = threading.Event()
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(CALLS, "call"),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)],
    )
    sessions = Sessions(_descriptor("HARNESS_ARENA_FD"))
    module: Any = backend if isinstance(plugin, Backend) else optimizer
    server.add_generic_rpc_handlers((module.service(plugin, sessions), sessions.service(), *_go_plugin(done)))
    path, certificate = _listen(server)
    server.start()
    print(CORE_VERSION, PROTOCOL_VERSION, "unix", path, "grpc", certificate, sep="|", file=out, flush=True)
    done.wait()
    server.stop(grace=1).wait()
    sys.stderr.flush()
    # Threads of a call that does not end, or of a library, must not keep the process alive.
    os._exit(0)


def _listen(server: grpc.Server) -> tuple[str, str]:
    """Binds a Unix socket, with mutual TLS if the host sent its certificate.

    Returns the socket's path and the plugin's certificate for the handshake.
    """
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp(prefix="harness-plugin-")
    path = os.path.join(folder, f"plugin{os.getpid()}")
    client = os.environ.get("PLUGIN_CLIENT_CERT")
    if not client:
        server.add_insecure_port("unix:" + path)
        return path, ""
    key, pem, der = _certificate.make()
    credentials = grpc.ssl_server_credentials([(key, pem)], root_certificates=client.encode(), require_client_auth=True)
    server.add_secure_port("unix:" + path, credentials)
    return path, base64.b64encode(der).decode().rstrip("=")


def _go_plugin(done: threading.Event) -> list[grpc.GenericRpcHandler]:
    """The services of go-plugin and gRPC that a host calls besides those of the protocol. Their messages are short enough
    to be written out."""

    def shutdown(request: bytes, context: grpc.ServicerContext) -> bytes:
        done.set()
        return b""  # Empty

    def check(request: bytes, context: grpc.ServicerContext) -> bytes:
        return b"\x08\x01"  # HealthCheckResponse{status: SERVING}

    raw = grpc.unary_unary_rpc_method_handler
    return [
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": raw(shutdown)}),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": raw(check)}),
    ]


def _descriptor(variable: str) -> int | None:
    """The number of an inherited descriptor, which the plugin's own children do not inherit."""
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 3:
        sys.exit(f'{variable} is "{text}", want the number of an inherited descriptor')
    os.set_inheritable(int(text), False)
    return int(text)


def _watch_host() -> None:
    """Ends this process when the host is gone: the kernel then closes the other end of the lifeline, even after a kill -9."""
    lifeline = _descriptor("HARNESS_LIFELINE_FD")
    if lifeline is None:
        return

    def wait() -> None:
        while os.read(lifeline, 1):
            pass
        print("the host is gone", file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
