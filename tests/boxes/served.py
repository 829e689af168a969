"""Starts and stops the tests' own server of the Open Inference Protocol, `tests/boxes/v2_server.py`."""

import json
import random
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Served:
    """A server process of a model file, with the options of its command line; `with` stops it in the end."""

    def __init__(self, model, *options):
        self._start = [sys.executable, "-m", "tests.boxes.v2_server", "--model", str(model), *map(str, options)]
        self.port = 0
        self.start()

    def start(self):
        """Start it, again at the port that it had."""
        command = [*self._start, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.port = int(self.process.stdout.readline().split()[-1])

    def kill(self):
        """What `kill -9` does."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"{self.address}/v2/models/head"

    def stats(self):
        """What the server counted: requests, sequences received and answered, faults, seconds in its handler."""
        with urllib.request.urlopen(f"{self.address}/stats", timeout=10) as reply:
            return json.load(reply)

    def change(self, **options):
        """Serve with these options on top of those of the command line, and count from 0."""
        request = urllib.request.Request(f"{self.address}/options", json.dumps(options).encode())
        urllib.request.urlopen(request, timeout=10).close()

    @contextmanager
    def killed_now_and_then(self, seed, least, most):
        """Kills the server after a random time between `least` and `most` seconds and starts it, again and again.

        Gives the list of these times, which grows.
        """
        rng, over, kills = random.Random(seed), threading.Event(), []

        def go_on():
            while not over.wait(seconds := rng.uniform(least, most)):
                kills.append(seconds)
                self.kill()
                self.start()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield kills
        finally:
            over.set()
            thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()
