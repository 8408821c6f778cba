"""Serve a small model on this machine like an OpenAI-compatible endpoint, for tries without one.

usage: python -m benchmarks.local_model [--model NAME] [--port N] [--context N] [--force-calls]

smollm2 (SmolLM2-135M-Instruct, 98 MB from PyPI) is weak: it shows that all works, never how good an agent is. It needs
the packages of the dependency group "local": `pip install --group local`, or `make .venv/dev`. See README.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.local_model.model import SMALL, LocalModel, check_packages, find_model, serve
from hepm.errors import HepmError
from hepm.graph.open_store import user_cache


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the process is stopped; 1 if the model cannot be served."""
    options = read_options(arguments)
    try:
        check_packages()
        if options.model == SMALL:
            print("opening smollm2; the first time takes a minute", file=sys.stderr, flush=True)
        model = LocalModel.load(
            find_model(options.model),
            cache=user_cache() / "models",
            name=SMALL if options.model == SMALL else "",
            context=options.context,
            force=options.force_calls,
        )
        serve(model, port=options.port, on_start=lambda address: tell_address(model, address))
    except HepmError as error:
        print(f"local_model: {error}", file=sys.stderr)
        return 1
    return 0


def tell_address(model: LocalModel, address: str) -> None:
    """Print where the model is served."""
    print(f"the model {model.name} is served at {address}", file=sys.stderr, flush=True)


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_model")
    parser.add_argument("--model", default=SMALL, help="smollm2, a folder, a GGUF file, or a name on Hugging Face")
    parser.add_argument("--port", type=int, default=8000, help="on 127.0.0.1; 0 for any free one")
    parser.add_argument("--context", type=int, default=4_096, help="tokens of a request and its answer")
    parser.add_argument(
        "--force-calls", action="store_true", help="call a tool wherever a request gives tools and leaves the choice"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
