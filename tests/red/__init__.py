"""The standing red team: boxes of hundreds of kinds, inside and outside the families, and a judge that knows the truth.

`python -m tests.red` makes boxes, asks `gh.recover` about each, and says what was wrong. Where things are:
`formats` the arithmetic of a box; `box` what a box is, how kinds are registered and what is promised about them;
`inside`, `networks` and `layers` the families; `scores`, `others`, `unsteady`, `broken`, `outputs` and `nearly` what is
outside; `cases` what once went wrong; `judge` the truth; `run` one box in a process that may be killed; `__main__` the
command, and `test_slice` the part that the suite runs.
"""
