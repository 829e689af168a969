"""Which scores make W. A scheme works on any meter, and hands back W with a bound on its error.

`columns`: all of W, column by column. `low_rank`: a W of low rank from few of its columns, the rank found on the way.
"""

from .columns import Measured, full, measured_matrix
from .low_rank import low_rank, read_W
