"""TODO."""

from .chart import Curve, chart
from .picture import Panel, colours, draw
