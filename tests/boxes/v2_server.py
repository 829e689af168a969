"""A small real server of the Open Inference Protocol (KServe V2), as a process of its own:

    python -m tests.boxes.v2_server --model head.safetensors --port 0

prints `listening on PORT`. It reads and writes the protocol with code of its own, answers every sequence alone, so that
answers do not depend on the batch, and counts: GET /stats. On request it does everything that servers do to clients;
POST /options with a JSON object changes how, and counts from 0 again.
"""

import argparse
import json
import random
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import glasshead as gh

FORMATS = {"FP64": "<f8", "FP32": "<f4", "FP16": "<f2", "BF16": "<u2"}
HEADER = "Inference-Header-Content-Length"
FAULTS = "busy", "limit", "unread", "dropped", "late", "truncated"


def numbers(data, datatype):
    """Binary data as float64."""
    array = np.frombuffer(data, FORMATS[datatype])
    return ((array.astype("<u4") << 16).view("<f4") if datatype == "BF16" else array).astype(float)


def short(array, datatype):
    """Numbers as binary data; BF16 cut off, which is all that is needed of numbers that are some already."""
    if datatype == "BF16":
        return (array.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return array.astype(FORMATS[datatype]).tobytes()


class State:
    """A model, how it is served, and what was counted so far."""

    def __init__(self, options):
        self.options, self.model, self.start = options, gh.load(options.model), time.monotonic()
        self.random, self.lock = random.Random(options.seed), threading.Lock()
        self.stats = {"requests": 0, "received": 0, "answered": 0, "refused": 0, "largest": 0, "seconds": 0.0}
        self.stats |= dict.fromkeys(FAULTS, 0)

    def count(self, **amounts):
        with self.lock:
            for name, amount in amounts.items():
                self.stats[name] += amount

    def fault(self):
        """What happens to the next request: one of the faults, or nothing."""
        with self.lock:
            happens = self.random.random() < self.options.faults
            return self.random.choice(self.options.kinds) if happens else None

    @property
    def ready(self):
        return time.monotonic() - self.start >= self.options.not_ready

    def answers(self, X):
        time.sleep(self.options.sleep * len(X))
        Y = self.model(X) if self.options.whole else np.array([self.model(np.array(x)) for x in X])
        if self.options.spoil:
            Y[-1] = np.nan
        return Y.reshape(len(X), -1) if Y.ndim > 1 or self.options.column else Y

    def metadata(self):
        kind, output = self.options.datatype, [-1] if np.ndim(getattr(self.model, "v", 0)) < 2 else [-1, -1]
        inputs = [{"name": "tokens", "datatype": kind, "shape": [-1, -1, self.model.dim]}]
        outputs = [{"name": name, "datatype": kind, "shape": output} for name in self.options.outputs]
        return {"name": self.options.name, "versions": ["1"], "platform": "tests", "inputs": inputs, "outputs": outputs}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def reply(self, status, message=None, *, data=b"", send=None, **headers):
        head = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if data else "application/json")
        self.send_header("Content-Length", str(len(head) + len(data)))
        if data:
            self.send_header(HEADER, str(len(head)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write((head + data)[:send])
        self.close_connection = self.close_connection or send is not None

    def do_GET(self):
        state, options = self.server.state, self.server.state.options
        model, ready = f"/v2/models/{options.name}", state.ready
        if not self.allowed():
            return
        if self.path == "/stats":
            with state.lock:
                self.reply(200, state.stats)
        elif self.path == "/v2":
            extensions = [] if options.json_only else ["binary_tensor_data"]
            self.reply(200, {"name": "tests", "version": "2", "extensions": extensions})
        elif self.path in (f"{model}/ready", f"{model}/versions/1/ready"):
            self.reply(200 if ready else options.not_ready_status, {"name": options.name, "ready": ready})
        elif self.path in (model, f"{model}/versions/1"):
            self.reply(200, state.metadata()) if ready else self.reply(
                404, {"error": f"Model {options.name} not found"}
            )
        else:
            self.reply(404, {"error": f"nothing at {self.path}"})

    def do_POST(self):
        start, state = time.perf_counter(), self.server.state
        if self.path == "/options":
            return self.change()
        fault = state.fault()
        state.count(requests=1, **({fault: 1} if fault else {}))
        if fault == "unread":
            self.close_connection = True
            return None
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.allowed():
            self.infer(body, fault)
        return state.count(seconds=time.perf_counter() - start)

    def change(self):
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.state = State(argparse.Namespace(**vars(self.server.first) | wanted))
        self.reply(200, {})

    def infer(self, body, fault):
        state, options = self.server.state, self.server.state.options
        end = int(self.headers.get(HEADER, len(body)))
        message = json.loads(body[:end])
        (tensor,) = message["inputs"]
        binary = "data" not in tensor
        if tensor["datatype"] != options.datatype or (binary and options.json_only):
            return self.reply(400, {"error": f"unexpected {tensor['datatype']}"})
        data = numbers(body[end:], options.datatype) if binary else np.array(tensor["data"], float)
        X = data.reshape(tensor["shape"])
        state.count(received=len(X))
        with state.lock:
            state.stats["largest"] = max(state.stats["largest"], len(X))
        if not state.ready:
            return self.reply(options.not_ready_status, {"error": f"Model {options.name} is not ready"})
        if fault == "busy":
            return self.reply(503, {"error": "busy"}, Retry_After=formatdate(usegmt=True))
        if fault == "limit":
            return self.reply(429, {"error": "too many requests"}, Retry_After="0")
        if fault == "dropped":
            self.close_connection = True
            return None
        if fault == "late":
            time.sleep(options.late)
        if len(X) > options.most:
            state.count(refused=1)
            if options.words:
                return self.reply(400, {"error": f"inference request batch-size must be <= {options.most} for 'head'"})
            return self.reply(413, {"detail": "Request Entity Too Large"})
        Y = state.answers(X)
        state.count(answered=len(X))
        return self.send_answers(message, Y, fault)

    def send_answers(self, message, Y, fault):
        options = self.server.state.options
        wanted = [output["name"] for output in message.get("outputs", [])] or options.outputs
        binary = not options.json_only and message.get("parameters", {}).get("binary_data_output", False)
        data, outputs = b"", []
        for name in wanted:
            number = options.outputs.index(name)
            entry = {"name": name, "shape": list(Y.shape), "datatype": options.datatype}
            if binary:
                part = short(Y + number, options.datatype)
                entry["parameters"] = {"binary_data_size": len(part)}
                data += part
            else:
                listed = (Y + number).astype(FORMATS[options.datatype])
                listed = listed.tolist() if options.nested else listed.ravel().tolist()
                entry["data"] = [None if y != y and options.spoil == "null" else y for y in listed]
            outputs.append(entry)
        asked = "another" if options.wrong_id else message.get("id")
        whole = {"model_name": options.name, "model_version": "1", "id": asked, "outputs": outputs}
        self.reply(200, whole, data=data, send=20 if fault == "truncated" else None)

    def allowed(self):
        token = self.server.state.options.token
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self.reply(401, {"error": f"who is {self.headers.get('Authorization')}?"})
            return False
        return True

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), OSError):  # clients that went away
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.boxes.v2_server", description=__doc__)
    parser.add_argument("--model", required=True, help="a file of gh.save")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--name", default="head")
    parser.add_argument("--datatype", choices=FORMATS, default="FP64")
    parser.add_argument("--outputs", nargs="+", default=["answers"], help="the second is the first plus 1, and so on")
    parser.add_argument("--faults", type=float, default=0.0, help="the share of requests that go wrong")
    parser.add_argument("--kinds", nargs="+", choices=FAULTS, default=FAULTS, help="how they go wrong")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--late", type=float, default=1.0, help="seconds by which late answers are late")
    parser.add_argument("--most", type=int, default=10**9, help="sequences in a request; 413 for more")
    parser.add_argument("--words", action="store_true", help="400 and words, as Triton has it, instead of 413")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds for each sequence")
    parser.add_argument("--not-ready", type=float, default=0.0, help="seconds until the model is ready")
    parser.add_argument("--not-ready-status", type=int, default=503)
    parser.add_argument("--json-only", action="store_true", help="no binary data")
    parser.add_argument("--nested", action="store_true", help="nested lists in JSON")
    parser.add_argument("--column", action="store_true", help="answers of shape (B, 1)")
    parser.add_argument("--whole", action="store_true", help="compute a batch at once, which is fast")
    parser.add_argument("--wrong-id", action="store_true")
    parser.add_argument("--spoil", choices=["nan", "null"], help="the last answer of each request")
    parser.add_argument("--token", default="", help="answer nobody else")
    options = parser.parse_args()
    server = Server(("127.0.0.1", options.port), Handler)
    server.first, server.state = options, State(options)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
