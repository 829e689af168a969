"""The first look at a box: has it biases, at what length do its kinks lie, and how noisy are its answers?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import NotConverged
from .box import Box
from .homogeneous import Homogeneous, Lifted, Plain
from .noise import MANY, Noise, measure_noise
from .radius import climb

LONGEST = 8.0  # no point that is asked about is longer, where all scales are alike
LARGE = 2.0**30  # rounding to a fixed number of decimals is harmless at this scale


def look(box: Box, biases, rng: np.random.Generator) -> tuple[Homogeneous, Noise]:
    """The box as a homogeneous function, and how noisy it is."""
    if box.max_norm is not None:
        return within(box, box.max_norm, biases, rng)
    if biases is False:
        return least_noisy(box, measure_noise(Plain(box), rng), rng)
    ladder = climb(box, rng)
    lifted = Lifted(box, ladder.radius)
    noise = measure_noise(lifted, rng)
    if not noise.exact:  # which on the lower rungs looks like kinks
        ladder = replace(ladder, noise=noise.level)
        lifted = Lifted(box, ladder.radius)
        noise = measure_noise(lifted, rng)
    allowed = noise.sigmas * noise.level * np.sqrt(lifted.dim)  # the ladder's points are that much longer
    if biases == "auto" and ladder.is_homogeneous(float(allowed)):
        return least_noisy(box, noise, rng)
    if noise.exact:
        lifted.seen.append(ladder.seen)
    return lifted, noise


def least_noisy(box: Box, noise: Noise, rng: np.random.Generator) -> tuple[Homogeneous, Noise]:
    """Without biases all scales are alike, except for how the answers are rounded."""
    if noise.exact:
        return Plain(box), noise
    plain, large = (measure_noise(Plain(box, scale), rng, MANY) for scale in (1.0, LARGE))
    return (Plain(box, LARGE), large) if large.level < plain.level / 10 else (Plain(box), plain)


def within(box: Box, max_norm: float, biases, rng: np.random.Generator) -> tuple[Homogeneous, Noise]:
    """The same with inputs no longer than `max_norm`: all scales are alike, or it cannot be done."""
    plain = Plain(box, max_norm / LONGEST)
    noise = measure_noise(plain, rng)
    X = plain.points(4, rng)
    there, half = plain(X), 2 * plain(X / 2)
    if biases is True or np.abs(there - half).max() > noise.sigmas * noise.level:
        raise NotConverged(
            f"the network has biases, and so kinks that inputs up to max_norm = {max_norm:g} may not reach; "
            "without max_norm it could be learned"
        )
    return plain, noise
