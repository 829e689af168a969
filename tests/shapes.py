"""How beartype reads the annotations of the library while the tests run: as PEP 484 does, an int is also a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
