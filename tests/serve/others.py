"""Clients that ask honestly and send no sentences: a few words over and over, patches of images, the same request again
and again, random numbers. The thresholds of the watch were chosen without them."""

import numpy as np
from scipy.ndimage import gaussian_filter

from tests.serve.honest import FORMATS, vocabulary


def few_words(dim, count, rng):
    """Sequences of 1 to 8 of a handful of words, as of commands, categories or states."""
    table = vocabulary(dim, rng)[: rng.integers(3, 40)]
    return [table[rng.integers(len(table), size=rng.integers(1, 9))] for _ in range(count)]


def patches(dim, count, rng):
    """Images of 2 x 2 or 4 x 4 patches, each mapped to a token and told its place, as vision models do it."""
    side, size = int(rng.choice([2, 4])), int(rng.choice([4, 8]))
    embed = rng.standard_normal((size * size, dim)) / size
    place, bias = 0.1 * rng.standard_normal((side * side, dim)), 0.1 * rng.standard_normal(dim)
    return [cut(image(side * size, rng), size) @ embed + bias + place for _ in range(count)]


def image(width, rng):
    """Smooth, with a bright thing on a dark ground, in 256 shades."""
    smooth = gaussian_filter(rng.standard_normal((width, width)), width / 8)
    return np.round(255 / (1 + np.exp(-smooth / smooth.std()))) / 255


def cut(pixels, size):
    side = len(pixels) // size
    return pixels.reshape(side, size, side, size).transpose(0, 2, 1, 3).reshape(side * side, -1)


def again(dim, count, rng):
    """One request, or one of a few, sent for ever, as by a health check or an impatient client."""
    asked = [rng.standard_normal((rng.integers(1, 9), dim)) for _ in range(rng.integers(1, 6))]
    return [asked[rng.integers(len(asked))] for _ in range(count)]


def random_pairs(dim, count, rng):
    """Two random tokens each, as by a load generator."""
    scale = float(rng.choice([0.05, 1.0, 20.0]))
    return list(scale * (rng.standard_normal if rng.random() < 0.5 else rng.random)((count, 2, dim)))


KINDS = {
    "a few words over and over": few_words,
    "patches of images": patches,
    "the same request again and again": again,
    "random pairs of tokens": random_pairs,
}


def asked(kind, dim, count, rng):
    """The sequences of one client, each as a batch of its own, with the unit roundoff of the format that it sends."""
    dtype = str(rng.choice(["float64", "float64", "float32", "float16"]))
    for x in KINDS[kind](dim, count, rng):
        yield x[None].astype(dtype).astype(float), FORMATS[dtype]
