"""What completions servers say of the next token: the numbers of some tokens, which are their logits, or the logarithms
of their probabilities, whose differences are exact differences of logits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import OracleError

NAMED = "token_id:"  # in front of a token's number, where the server names tokens by it
ENDLESS = -9999.0  # what servers write for minus infinity, and for everything below it
CERTAIN_LOGITS = math.log(2.0)  # probabilities add up to 1 at most, so what adds up to 2 is no rounding of them

NEEDED_SERVER = "a server that takes vectors as prompts (vLLM, started with --enable-prompt-embeds)"


def token_numbers(message: Any, sequences: int, token_ids: Sequence[int]) -> np.ndarray:
    """One row for each sequence of a request, the number of each wanted token in it."""
    choices = message.get("choices") if isinstance(message, Mapping) else None
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        got = excerpt(message)
        raise OracleError(f"expected a completion with choices, got {got}; the URL may be of something else")
    by_index = {choice.get("index"): choice for choice in choices}
    if len(choices) != sequences or set(by_index) != set(range(sequences)):
        words = f"expected {sequences} choices, one for each prompt, got {len(choices)}"
        raise OracleError(f"{words}; does it read prompt_embeds? needed is {NEEDED_SERVER}")
    return np.array([next_token(by_index[index], token_ids) for index in range(sequences)])


def next_token(choice: Mapping[str, Any], token_ids: Sequence[int]) -> list[float]:
    """The numbers of the wanted tokens in one choice."""
    try:
        given = choice["logprobs"]["top_logprobs"][0]
        given = {str(name): number for name, number in given.items()}
    except (KeyError, IndexError, TypeError, AttributeError):
        words = f"expected top_logprobs of one new token, got {excerpt(choice)}"
        raise OracleError(f"{words}; needed is a server that answers logprobs") from None
    missing = [token for token in token_ids if f"{NAMED}{token}" not in given]
    if missing:
        raise OracleError(f"expected a number for each of {len(token_ids)} tokens, got {left_out(given, missing)}")
    return [checked_number(given[f"{NAMED}{token}"], token) for token in token_ids]


def left_out(given: Mapping[str, Any], missing: list[int]) -> str:
    """Why some tokens have no number, and what to do about it."""
    if not any(name.startswith(NAMED) for name in given):
        names = ", ".join(repr(name) for name in list(given)[:3])
        return f"tokens by their text ({names}); needed is a server that knows return_tokens_as_token_ids"
    some = ", ".join(map(str, missing[:3])) + (f" and {len(missing) - 3} others" if len(missing) > 3 else "")
    words = f"only the {len(given)} most probable, without {some}: the server does not know logprob_token_ids"
    return f"{words}; give logprobs=-1 to read all tokens, and start it with --max-logprobs -1"


def checked_number(number: Any, token: int) -> float:
    usable = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    if not usable or number == ENDLESS:
        words = f"expected a number for token {token}, got {number!r}"
        why = f", which servers write for {ENDLESS:g} and all below it" if usable else ""
        raise OracleError(f"{words}{why}; if its numbers get too large, give max_norm=")
    return float(number)


def are_logits(numbers: np.ndarray) -> bool:
    """Whether some of these rows cannot be log-probabilities, since they add up to more than one probability."""
    return bool((np.logaddexp.reduce(numbers, axis=1) > CERTAIN_LOGITS).any())


def excerpt(message: Any) -> str:
    words = repr(message)
    return words if len(words) <= 200 else f"{words[:200]}.."
