"""Pictures that any browser opens, made of numpy and nothing else: `picture` draws matrices, `chart` curves."""

from .chart import Curve as Curve
from .chart import chart as chart
from .picture import Panel as Panel
from .picture import colours as colours
from .picture import draw as draw
