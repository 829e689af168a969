"""Several heads, and one head from answers of many numbers. `route` says which method when.

`one_by_one`: very long keys saturate every head, which counts them and shows their values; then each is isolated and
read like a single head. `together`: heads that nothing isolates are solved for at once, from a plane of keys.
`vector`: answers of many numbers split by head, and one query of many tokens shows many scores of each. `combination`:
one combination of the outputs, learned like a single number. `saturated` is what the first two share.
"""

from .route import learn_one_vector, learn_several, learn_several_vector
