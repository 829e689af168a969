"""What checks the types of arguments while the tests run."""

from beartype import BeartypeConf, beartype

# What users call checks its arguments itself, and says more about them: that is what the tests are to see.
ENTRIES = ("glasshead._recover", "glasshead._plan", "glasshead._models.files")
TOWER = BeartypeConf(is_pep484_tower=True)  # a float is a complex number, as type checkers have it


def checker(function):
    return function if function.__module__ in ENTRIES else beartype(function, conf=TOWER)
