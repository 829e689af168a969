"""A real `glasshead serve` in a process of its own, and requests to it as raw as they can be."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path

HEADER = "Inference-Header-Content-Length"


class Running:
    """`glasshead serve MODEL --port 0` with more options; `with` stops it. `log` is what it has logged so far."""

    def __init__(self, model, *options, token=None):
        with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as file:
            self._log = Path(file.name)
        command = [sys.executable, "-m", "glasshead", "serve", str(model), "--port", "0", *map(str, options)]
        environment = {name: value for name, value in os.environ.items() if name != "GLASSHEAD_TOKEN"}
        environment |= {} if token is None else {"GLASSHEAD_TOKEN": token}
        with self._log.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        self.first = self.process.stdout.readline()
        assert " at http" in self.first, self._log.read_text()
        self.url = self.first.split()[-1]
        self.port = int(self.url.split(":")[2].partition("/")[0])
        self.path = "/v2" + self.url.partition("/v2")[2]

    @property
    def log(self):
        return self._log.read_text()

    @property
    def lines(self):
        return [json.loads(line) for line in self.log.splitlines()]

    def stop(self, how=signal.SIGTERM):
        """The exit code, and the last words."""
        self.process.send_signal(how)
        words, _ = self.process.communicate(timeout=30)
        return self.process.returncode, words

    def ask(self, path="", body=None, method=None, **headers):
        """Status, JSON or bytes, and headers of the answer to a request below the model's address."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            path = path if path and not path.startswith(("/infer", "/ready", "/versions")) else self.path + path
            body = json.dumps(body) if isinstance(body, dict | list) else body
            headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
            reply = connection.getresponse()
            content = reply.read()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return (
                reply.status,
                json.loads(content) if content and "json" in found.get("content-type", "") else content,
                found,
            )
        finally:
            connection.close()

    def raw(self, data):
        """What comes back for these bytes, until the server closes or a second passes without any."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(data)
            found = b""
            try:
                while part := connection.recv(65536):
                    found += part
            except TimeoutError:
                pass
            return found

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()
        self._log.unlink()


def question(dim, sequences=1, tokens=1, **more):
    """A request that can be answered, with parts of it exchanged."""
    count = sequences * tokens * dim
    entry = {"name": "tokens", "shape": [sequences, tokens, dim], "datatype": "FP64", "data": [0.5] * count}
    entry |= more.pop("entry", {})
    return {"inputs": [entry]} | more
