from tests.cli.conftest import cli, folder  # noqa: F401
