"""Several heads from k outputs by way of one combination of them: whatever learns heads from one number does it."""

from .check import check_combined as check_combined
from .learn import learn_combined as learn_combined
from .learned import LearnedCombined as LearnedCombined
