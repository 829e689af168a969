"""A model of glasshead behind an endpoint of the Open Inference Protocol (KServe V2): something to attack, or to watch
being attacked. FastAPI and uvicorn, the extra `serve`, are imported when a server starts.

`settings`: what a server is told; `box`: the model, its defences and how one request is answered; `gate`: who may ask,
how much and how often; `log`: what is written down; `application` and `schema`: the addresses, and their OpenAPI page;
`process`: from a model to a server that listens, until a signal stops it; `watch`: who asks as a recovery does.
"""

from .process import serve as serve
from .settings import Settings as Settings
from .settings import tokens_of_environment as tokens_of_environment
from .watch import Watch as Watch
