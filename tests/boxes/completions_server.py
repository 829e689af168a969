"""A small server of the completions protocol with vectors as prompts, as vLLM speaks it, in front of real models. The
first part of the path says its manners: /v1/.. is a server as it should be, /top/v1/.. one with the manners of `top`.

    python -m tests.boxes.completions_server

prints the port on which it listens, until its standard input ends.
"""

import base64
import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import glasshead as gh

DIM, VOCABULARY, HEAD_DIM = 16, 32, 6
TOKEN = "s3cr3t-t0ken"
MOST_TOKENS = 128
NOT_ENABLED = "You must set `--enable-prompt-embeds` to input `prompt_embeds`. (parameter=prompt_embeds)"


def llama(dtype):
    """A LLaMA of one layer with random weights."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=DIM,
        intermediate_size=2 * DIM,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval().to(dtype)


def head():
    """A head whose three outputs are logits."""
    return gh.Attention(
        gh.Attention.random(HEAD_DIM, seed=1).W, np.random.default_rng(2).standard_normal((HEAD_DIM, 3))
    )


def models():
    """By name: a function from (N, d) vectors to the logits of the next token."""
    networks = {name: llama(getattr(torch, name)) for name in ("float32", "bfloat16")}

    def logits_of(network):
        return lambda x: network(inputs_embeds=x[None].to(network.dtype), use_cache=False).logits[0, -1].float()

    return {name: logits_of(network) for name, network in networks.items()} | {
        "head": lambda x: torch.tensor(head()(x.double().numpy())),
        "head32": lambda x: torch.tensor(head()(x.double().numpy())).float(),
    }


class Refused(Exception):
    """A request that is answered with an error, in the words of vLLM, or of servers before it."""

    def __init__(self, status, message, old=False):
        error = {"message": message, "type": "BadRequestError", "param": None, "code": status}
        self.status, self.body = status, {"object": "error", **error} if old else {"error": error}


def prompts(sent, manners):
    """The vectors in a request."""
    if manners == "closed":
        raise Refused(400, NOT_ENABLED)
    if manners == "text" and "prompt" not in sent:
        raise Refused(422, "body.prompt: Field required", old=True)
    if manners == "few" and len(sent["prompt_embeds"]) > 5:
        many = len(sent["prompt_embeds"])
        raise Refused(400, f"prompt_embeds list length {many} exceeds the maximum allowed count of 5.")
    return [
        torch.load(io.BytesIO(base64.b64decode(one, validate=True)), weights_only=True) for one in sent["prompt_embeds"]
    ]


def completion(sent, manners, model):
    """The answer to a request: one new token after each prompt."""
    choices = []
    for index, x in enumerate(prompts(sent, manners)):
        if not sent["model"].startswith("head") and x.shape[1] != DIM:
            raise Refused(
                400, f"`prompt_embeds` hidden_size {x.shape[1]} does not match the model's hidden_size {DIM}."
            )
        logits = model(torch.ones_like(x) if manners == "deaf" else x)
        if not logits.isfinite().all():
            raise Refused(400, "Out of range float values are not JSON compliant")
        numbers = (logits if manners == "logits" else torch.log_softmax(logits, dim=0)).tolist()
        if manners == "endless":
            numbers[2] = -9999.0
        if manners == "null":
            numbers[2] = None
        if manners in ("top", "texts") or "logprob_token_ids" not in sent:
            most = len(numbers) if sent["logprobs"] == -1 else sent["logprobs"]
            if manners == "capped" and most > 5:
                raise Refused(400, f"Requested sample logprobs of {most}, which is greater than max allowed: 5")
            tokens = torch.argsort(logits, descending=True)[:most].tolist()
        else:
            tokens = sent["logprob_token_ids"]
        named = {f"<{token}>" if manners == "texts" else f"token_id:{token}": numbers[token] for token in tokens}
        choices.append({"index": index, "text": "", "logprobs": {"top_logprobs": [named]}, "finish_reason": "length"})
    if manners == "silent":
        choices = [{**choice, "logprobs": None} for choice in choices]
    return {"object": "text_completion", "choices": choices[:1] if manners == "single" else choices[::-1]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answered(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        manners = self.path.partition("/v1")[0].strip("/")
        if manners == "secret" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            said = self.headers.get("Authorization")
            raise Refused(401, f"Unauthorized: {said}")
        if self.path.endswith("/models") and manners != "unlisted":
            most = 32 if manners == "short" else MOST_TOKENS
            return {"object": "list", "data": [{"id": name, "max_model_len": most} for name in self.server.models]}
        if not self.path.endswith("/v1/completions"):
            raise Refused(404, "Not Found")
        self.server.requests += 1
        if manners == "busy" and self.server.requests % 2:
            raise Refused(503, "The server is overloaded")
        sent = json.loads(body)
        if sent["model"] not in self.server.models:
            raise Refused(404, f"The model `{sent['model']}` does not exist.")
        with torch.no_grad(), self.server.lock:
            return completion(sent, manners, self.server.models[sent["model"]])

    def do_POST(self):
        try:
            status, message = 200, self.answered()
        except Refused as refused:
            status, message = refused.status, refused.body
        body = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *args):
        pass


def main():
    torch.set_num_threads(1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.models, server.lock, server.requests = models(), threading.Lock(), 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
