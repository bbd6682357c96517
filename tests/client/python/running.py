"""Servers for as long as a test needs them: real ones, and scripted ones."""

import json
import os
import subprocess
import threading
from concurrent import futures

import grpc

CONFIG = os.path.join(os.path.dirname(__file__), "attnd.yaml")


class Attnd:
    """An attnd of this build; `target` is where it listens."""

    def __init__(self, config=CONFIG):
        self.process = subprocess.Popen(
            [os.environ["ATTND_PATH"], "--config", str(config)],
            stderr=subprocess.PIPE,
            text=True,
        )
        seen = []
        self.target = None
        for line in self.process.stderr:
            seen.append(line)
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("event") == "listening":
                self.target = entry["grpc"]
                break
        assert self.target, "attnd does not listen:\n" + "".join(seen)
        # A full pipe would stop the server.
        self._reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.terminate()
        code = self.process.wait()
        self._close()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self):
        self._reader.join()
        self.process.stderr.close()


class Scripted:
    """A server that answers by a function of the path, bytes and context.

    Keeps (path, message, metadata) of every call in `calls`.
    """

    def __init__(self, answer, streams=False, workers=8):
        self.calls = []
        self._answer = answer
        self._server = grpc.server(futures.ThreadPoolExecutor(workers))
        self._server.add_generic_rpc_handlers([_Handler(self, streams)])
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def handle(self, path, message, context):
        metadata = dict(context.invocation_metadata())
        self.calls.append((path, message, metadata))
        return self._answer(path, message, context)

    def paths(self, name):
        return [call for call in self.calls if call[0].endswith("/" + name)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, server, streams):
        self._server = server
        self._streams = streams

    def service(self, call):
        path = call.method
        if path.startswith("/grpc.health.v1."):
            return None
        if path.endswith("/AttendStream") and self._streams:
            return grpc.stream_stream_rpc_method_handler(
                lambda messages, context: self._server.handle(path, messages, context)
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda message, context: self._server.handle(path, message, context)
        )


def refuse(context, code, text, *details):
    """Ends a call as attnd does, with details under their public names."""
    context.set_trailing_metadata(
        [("grpc-status-details-bin", status_bytes(code, text, *details))]
    )
    context.abort(code, text)


def status_bytes(code, text, *details):
    from attnd.rpc.v1 import error_details_pb2

    status = error_details_pb2.Status(code=code.value[0], message=text)
    for detail in details:
        status.details.add(
            type_url="type.googleapis.com/google.rpc." + detail.DESCRIPTOR.name,
            value=detail.SerializeToString(),
        )
    return status.SerializeToString()


def retry_after(seconds):
    from attnd.rpc.v1 import error_details_pb2

    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds = int(seconds)
    info.retry_delay.nanos = int(seconds % 1 * 1e9)
    return info
