"""Shapes in signatures are checked while the tests run. Must come before glasshead is imported anywhere."""

from jaxtyping import install_import_hook

hook = install_import_hook("glasshead", "beartype.beartype")
