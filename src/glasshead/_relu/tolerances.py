"""Every absolute tolerance of the ReLU learner, in one place.

Answers are exact or noisy, and `scale.AnswerNoise` measures which; what can be a multiple of the measured level is one,
where it is used. Here are the numbers that are not: relative to the quantity that the comment names, chosen for
float64. docs/constants.md shows what becomes of boxes where one of them is ten times smaller or larger.
"""

from __future__ import annotations

# Reading
NOISE_STRETCH = 3e-5  # of a point's length: four points this far apart tell noise; a kink is between them as rarely
EXACT_ANSWERS = 1e-12  # of the largest answer: a level up to this is double precision, or as good
NARROWEST = 1e-11  # radians: double precision cannot tell kinks closer than this apart
NEAREST_TO_CROSSING = 1e-6  # of the shorter line: nothing is asked closer to a crossing than that
FROM_INFINITY = 1e-6  # radians: a line is followed to 10^6 radii, kinks beyond that are not looked for
LADDER_RIPPLE = 0.02  # of the largest change between rungs: a change too small to come from kinks that matter
LADDER_ROUNDING = 1e-8  # of the slope: a change too small to come from any kink

# Learning
INDEPENDENT = 1e-6  # of the largest singular value of the normalised jumps
WHOLE_MULTIPLE = 1e-9  # a multiple this near to 1 or -1 is a sign, where the jumps are known better than that
GOAL = 1e-11  # of the typical answer: what the errors of the gradients may add up to before some are repaired
GROSS = 1e-6  # of the largest answer: more is no rounding, some step crossed a hyperplane
BEYOND_REPAIR, BEYOND_REPAIR_NOISY = 1e-3, 0.3  # of the largest answer: from errors like these no repair comes back
LSQR = 1e-9  # relative errors of the system and of its right-hand side, for scipy's lsqr

# Checking
ACCEPTED = 1e-9  # of the largest answer, at every length of input: what `gh.recover_relu` promises for exact answers
ACCEPTED_NOISES, LARGEST_RESIDUAL = 100.0, 1e-3  # or so many noise levels, but never more than this of the largest
ACCEPTED_NOISY = 1e-5  # of the largest answer at an input's length, noise apart
CANCELLED = 1e-11  # of the sum of the neurons' sizes: where they cancel, this much is left of their own errors
EXCUSED = 1e-5  # of the largest answer at a length: no rounding excuses more
DEPENDENT_NORMALS = 1e-3  # of the largest singular value: directions that neurons see less are left to chance
