"""How beartype reads the annotations of the library while the tests run: as PEP 484 does, an int is also a float.

What users call checks its arguments itself and says more about them, which is what the tests are to see.
"""

from beartype import BeartypeConf, beartype

ENTRIES = ("glasshead._recover", "glasshead._plan", "glasshead._models.files")
TOWER = BeartypeConf(is_pep484_tower=True)


def check(function):
    return function if function.__module__ in ENTRIES else beartype(function, conf=TOWER)
