"""Pictures that any browser opens, made of numpy and nothing else: `picture` draws matrices, `chart` curves."""

from .chart import Curve, chart
from .picture import Panel, colours, draw
