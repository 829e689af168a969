"""TODO."""

from .chart import Curve as Curve
from .chart import chart as chart
from .picture import Panel as Panel
from .picture import colours as colours
from .picture import draw as draw
