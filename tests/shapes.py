"""How annotations of the library are read while the tests run: by beartype as PEP 484 has it, an int is also a float,
and shapes by jaxtyping.

jaxtyping compares the shapes of all arguments of a call, which takes longer than most functions of ours do: it is left
out where a signature has no shapes, which saves a third of the time of the tests.
"""

import inspect

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
with_shapes = jaxtyping.jaxtyped


def where_there_are_shapes(*, typechecker):
    """The decorator that jaxtyping's import hook puts on every function and class."""

    def decorated(thing):
        if any("Float[" in str(annotation) for annotation in getattr(thing, "__annotations__", {}).values()):
            return with_shapes(typechecker=typechecker)(thing)
        return thing if inspect.isclass(thing) else typechecker(thing)

    return decorated


jaxtyping.jaxtyped = where_there_are_shapes
