"""How far equations of all heads may be from holding, in one place.

Each is an allowance for what iteration and conditioning leave in float64, and stands beside `ANSWER_ERRORS` times the
error of an answer, which is derived from the box (`EvenPart.noise`) and is the larger of the two for narrow answers.
They can be absolute because there is a wide gap to sit in: a fit of the right heads ends at rounding, a wrong set of
heads leaves about a thousandth of the answers. Their order is what matters: a fit is refined to `PRECISE`, accepted at
`FOUND`, held to be wrong on fresh answers past `CONTRADICTED`, and what follows from it is judged more mildly, since
errors of pairs grow on the way. docs/constants.md shows what becomes of boxes where one of them is ten times off.
"""

ANSWER_ERRORS = 30.0  # times the error of an answer: what conditioning usually makes of it

# Of the largest answer.
PRECISE = 1e-13  # fresh answers met so well are fine as they are: a thousand roundings
FOUND = 1e-9  # a set of heads that explains all but this is the right one
CONTRADICTED = 1e-7  # heads that are further off on fresh answers are others

# Of what it is a part of.

# What follows from pairs: equations for a key at another query token hold so well, of a head's answer; a new column of
# W leaves the span of those before by so much, if it does not; and so much of a key is a key bias, if there is none.
FOLLOWED = 1e-8
NO_HEAD = 1e-7  # of all values: those of a head that is not there
ORIENTED = 1e-6  # of all values: how well oriented heads explain answers to three tokens, per length of the key
SMALLEST_COLUMN = 1e-3  # of a key: about the smallest column, in steps, that W is expected to have

# Where numbers stop being of use.
PROPORTIONAL = 1e-3  # of a key, across another: less is a proportional one, which no point of a hyperplane turns off
COLLINEAR = 1e-6  # of the product of two squares: a determinant below says that the two columns are one
READABLE_WEIGHT = 1e-4  # how far from 0 and 1 a weight has to be for its logit
LARGEST_GATE = 1 - 1e-12  # the largest gate that is still a number of its own
