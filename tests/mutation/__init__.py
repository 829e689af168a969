"""Would the tests notice? Small faults are put into meters, schemes and checks, one at a time, and the tests run.

`mutants` makes the faults, `reach` finds out which test runs which function, `run` tries faults on tests that reach
them, `__main__` takes a sample and keeps the record. A tool of our own, since thresholds are what matters here:
mutmut leaves constants at the top of a module alone, and cosmic-ray moves every number by one.
"""
