"""A server that answers the requests of one test as it is told, one after the other, and keeps what it was sent."""

import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Script(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_GET(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.seen.append((self.path, dict(self.headers), self.body))
            act = self.server.acts[min(len(self.server.seen), len(self.server.acts)) - 1]
        act(self)

    do_POST = do_GET

    def log_message(self, *args):
        pass


def says(status, body="", **headers):
    """Answers with a status, a body and headers (`Retry_After=..`)."""

    def act(request):
        sent = body.encode() if isinstance(body, str) else body
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(sent)))
        request.end_headers()
        request.wfile.write(sent)

    return act


def drops(request):
    """Closes the connection without a word."""
    request.close_connection = True


def truncates(request):
    """Promises more than it sends."""
    request.send_response(200)
    request.send_header("Content-Length", "100")
    request.end_headers()
    request.wfile.write(b'{"half": ')
    request.close_connection = True


def drips(request):
    """Sends a byte now and then, so that no single piece is late."""
    request.send_response(200)
    request.send_header("Content-Length", "100")
    request.end_headers()
    try:
        while not request.server.over.wait(0.05):
            request.wfile.write(b" ")
            request.wfile.flush()
    except OSError:
        request.close_connection = True


def hangs(request):
    """Answers nothing until the test is over."""
    request.server.over.wait(20)
    request.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = False

    def process_request(self, request, client_address):
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request, client_address):
        pass  # connections that a test breaks


@contextmanager
def serving(*acts, context=None):
    """A server of these acts, the last of them for all further requests: its address is `.url`, requests `.seen`."""
    server = Server(("127.0.0.1", 0), Script)
    server.acts, server.seen, server.connections = acts, [], []
    server.lock, server.over = threading.Lock(), threading.Event()
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        for connection in server.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
