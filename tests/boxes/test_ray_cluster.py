"""A cluster that somebody else has started, by `ray start --head` on this machine: joined by each kind of address."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace

import pytest

import glasshead as gh
from glasshead._boxes.cluster import inside

from .replicated import one_by_one

ROOT = Path(__file__).parents[2]
START = "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats", "--block"
PROGRAM = """
import sys
import glasshead as gh
from glasshead._boxes import ray_executor
from tests.boxes.replicated import one_by_one, recovered
for address in sys.argv[1:]:
    try:
        oracle = gh.from_ray(lambda: one_by_one, 8, 1, address=address)
    except gh.OracleError as error:
        sys.exit(str(error))
    print(gh.recover(oracle).model.W.tobytes().hex())
    oracle.close()
    print(sys.modules["ray"].is_initialized())
with ray_executor(address) as executor:
    print(executor._max_workers, *(W.tobytes().hex() for W in executor.map(recovered, range(2))))
"""


@contextmanager
def started(environment):
    """The address of a cluster, which ends with the block."""
    program = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *START]
    folder = Path(environment["RAY_TMPDIR"])
    with (folder / "said").open("w") as said:
        cluster = subprocess.Popen(program, env=environment, start_new_session=True, stdout=said, stderr=said)
    try:
        while "runtime started" not in (folder / "said").read_text():
            assert cluster.poll() is None, (folder / "said").read_text()
            time.sleep(0.1)
        yield (folder / "ray" / "ray_current_cluster").read_text().strip()
    finally:
        os.killpg(cluster.pid, signal.SIGTERM)
        cluster.wait(60)


def joined(environment, *addresses):
    program = [sys.executable, "-W", "error", "-c", PROGRAM, *addresses]
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_cluster_of_others_is_found_and_joined():
    alone = gh.recover(gh.ValueOracle(one_by_one, 8)).model.W.tobytes().hex()
    more = [gh.recover(gh.Attention.random(8, seed=seed)).model.W.tobytes().hex() for seed in range(2)]
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # short, as names of sockets are
        secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)}
        environment = os.environ | secret | {"RAY_TMPDIR": folder}
        with started(environment | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}) as address:
            assert address.startswith("127.0.0.1:")
            code, out, err = joined(environment, "auto", address.replace("127.0.0.1", "localhost"))
            assert (code, "Error" in err) == (0, False)  # Ray warns there where it finds other clusters as well
            assert out == 2 * f"{alone}\nFalse\n" + f"2 {' '.join(more)}\n"
        code, out, err = joined(environment, address)
    assert (code, out) == (1, "")
    assert err.startswith(f"expected a Ray cluster at {address}, got ConnectionRefusedError")
    assert "RAY_AUTH_MODE=token" in err


ANOTHER_RAY = """
import sys
import glasshead as gh
from glasshead._boxes import cluster
cluster.inside = lambda ray, path: None
try:
    gh.from_ray(lambda: gh.Attention.random(8), 8, 1)
except gh.OracleError as error:
    print(error)
print(sys.modules["ray"].is_initialized())
"""


@pytest.mark.slow
def test_a_version_of_ray_that_has_its_insides_elsewhere_is_not_opened_to_other_machines():
    program = [sys.executable, "-c", ANOTHER_RAY]
    done = subprocess.run(program, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=100)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    if done.stdout != "True\n":  # a machine without a network has no other address than its own
        assert "expected a Ray cluster at this machine, got ConnectionError: Ray " in done.stdout
        assert "where other machines may reach it" in done.stdout
        assert done.stdout.endswith("\nFalse\n")


def test_what_ray_has_elsewhere_is_none():
    assert inside(SimpleNamespace(), "services.find") is None
    assert inside(SimpleNamespace(_private=SimpleNamespace(worker=3)), "worker") == 3
