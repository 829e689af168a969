"""What is said of a box that does not fit."""

NOT_THIS = "the box is not a single attention head with a network behind it"
OR_NOISY = "or its answers are less accurate than promised (then say so with tolerance= or rtol=)"
