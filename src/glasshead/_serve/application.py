"""The addresses of the Open Inference Protocol (KServe V2), as a FastAPI application with its OpenAPI page."""

from __future__ import annotations

from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from .._version import __version__
from .box import MODEL_VERSION, Refusal, ServedBox
from .gate import admitted, headers_of, problem
from .log import Log
from .schema import InferenceRequest, InferenceResponse, Live, ModelConfiguration, ModelMetadata, Problem, Ready, Server

SCHEMAS = "#/components/schemas/{model}"
WHY = {
    400: "a request that is not as the protocol has it",
    401: "no bearer token that the server knows",
    403: "the quota is spent",
    404: "no such model",
    408: "a body that does not arrive",
    413: "a request that is too large",
    415: "a body that is compressed",
    429: "too many requests: Retry-After says when to come back",
}


def application(box: ServedBox, log: Log) -> FastAPI:
    """The application that serves `box`; it expects the `Gate` around it, which says who the client is."""
    app = FastAPI(
        title="glasshead serve",
        version=__version__,
        description="A model of glasshead behind the Open Inference Protocol (KServe V2), with its binary extension.",
        redirect_slashes=False,
        responses={status: {"model": Problem, "description": words} for status, words in WHY.items()},
    )
    one_at_a_time = CapacityLimiter(1)  # memory stays bounded, and answers do not depend on who else asks

    @app.exception_handler(HTTPException)
    async def said(_: Request, error: HTTPException) -> Response:
        return Response(problem(str(error.detail)), error.status_code, error.headers, "application/json")

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> Response:
        return Response(problem(str(error)), error.status, headers_of(error), "application/json")

    def require_model(name: str, version: str = MODEL_VERSION) -> None:
        if (name, version) != (box.settings.name, MODEL_VERSION):
            raise Refusal(404, f"expected the model {box.settings.name!r}, version {MODEL_VERSION}, got another")

    @app.get("/v2", summary="The server", response_model=Server)
    async def server() -> Any:
        return box.about()

    @app.get("/v2/health/live", summary="Does the server run?", response_model=Live)
    async def live() -> Any:
        return {"live": True}

    @app.get("/v2/health/ready", summary="Does it answer?", response_model=Ready, response_model_exclude_none=True)
    async def ready() -> Any:
        return {"ready": True}

    @app.get("/v2/models/{name}", summary="What the model takes and gives", response_model=ModelMetadata)
    async def metadata(name: str) -> Any:
        require_model(name)
        return box.metadata()

    @app.get("/v2/models/{name}/versions/{version}", summary="The same of a version", response_model=ModelMetadata)
    async def version_metadata(name: str, version: str) -> Any:
        require_model(name, version)
        return box.metadata()

    triton: Any = {"response_model": ModelConfiguration, "response_model_exclude_none": True}

    @app.get("/v2/models/{name}/config", summary="The same as Triton says it", **triton)
    async def configuration(name: str) -> Any:
        require_model(name)
        return box.configuration()

    @app.get("/v2/models/{name}/versions/{version}/config", summary="The same of a version", **triton)
    async def version_configuration(name: str, version: str) -> Any:
        require_model(name, version)
        return box.configuration()

    @app.get("/v2/models/{name}/ready", summary="Does the model answer?", response_model=Ready)
    async def model_ready(name: str) -> Any:
        require_model(name)
        return {"name": name, "ready": True}

    @app.get("/v2/models/{name}/versions/{version}/ready", summary="Does that version?", response_model=Ready)
    async def version_ready(name: str, version: str) -> Any:
        require_model(name, version)
        return {"name": name, "ready": True}

    described: Any = {
        "responses": {200: {"model": InferenceResponse, "content": {"application/octet-stream": {}}}},
        "openapi_extra": {"requestBody": request_body()},
        "response_class": Response,
    }

    @app.post("/v2/models/{name}/infer", summary="Ask it", **described)
    async def infer(name: str, request: Request) -> Response:
        require_model(name)
        return await answered(request)

    @app.post("/v2/models/{name}/versions/{version}/infer", summary="Ask that version", **described)
    async def version_infer(name: str, version: str, request: Request) -> Response:
        require_model(name, version)
        return await answered(request)

    async def answered(request: Request) -> Response:
        body, headers = await request.body(), dict(request.headers)
        content, more = await to_thread.run_sync(ask, body, headers, request.scope["state"], limiter=one_at_a_time)
        return Response(content, 200, more)

    def ask(body: bytes, headers: dict[str, str], state: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        asked, client = box.read(body, headers), state["client"]
        admitted(client, len(asked.X), box.settings)
        state["sequences"] = len(asked.X)
        if box.settings.watch and (seen := client.watch.see(asked.X, asked.roundoff)):
            log.write(level="warning", client=client.name, message="asks as a recovery does", **seen)
        return box.answered(asked)

    app.openapi_schema = with_messages(app.openapi(), {"name": box.settings.name, "version": MODEL_VERSION})
    return app


def request_body() -> dict[str, Any]:
    schema = {"schema": {"$ref": SCHEMAS.format(model=InferenceRequest.__name__)}}
    binary = {"schema": {"type": "string", "format": "binary", "description": "the JSON, and numbers behind it"}}
    return {"required": True, "content": {"application/json": schema, "application/octet-stream": binary}}


def with_messages(openapi: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """The page with what FastAPI does not know: the request, which is read by hand, and what may stand in a path."""
    request = InferenceRequest.model_json_schema(ref_template=SCHEMAS)
    schemas = openapi["components"]["schemas"]
    schemas |= {**request.pop("$defs"), InferenceRequest.__name__: request}
    for path in openapi["paths"].values():
        for parameter in (one for operation in path.values() for one in operation.get("parameters", ())):
            parameter["schema"]["enum"] = [named[parameter["name"]]]
    return openapi
