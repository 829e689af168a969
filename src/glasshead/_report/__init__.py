"""The page people show, and its pictures.

`page` writes one HTML file for a recovery or an audit, of the data that `recovered` and `audited` make (`packing` puts
matrices into text) and of the `.html`, `.css` and `.js` files beside them; `run` is what a folder says of how it came
about, `pattern` what heads look at; `pictures` are SVG files.
"""

from .page import REPORT_FILE, report
from .pictures import ChartCurve, Panel, chart, colours, draw
from .run import RUN_FILE, History, Run, shown_command, without_secrets
