"""ToolSandbox (Lu et al., 2024, arXiv:2408.04682): a phone with settings, contacts, messages and reminders.

https://github.com/apple/ToolSandbox, from its authors' checkout
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hepm.evals.environments.packages import Checkout, Package
from hepm.evals.environments.worker import PlayedWorkerEnvironment, WorkerEnvironment

_NEEDS: Final = Package(
    (
        "polars==0.20.31", "ccy==1.3.1", "decorator==5.1.1", "dill==0.3.8", "geopy==2.4.1", "holidays==0.51",
        "langchain-core==0.1.53", "networkx==3.2.1", "numpy==1.26.4", "openai==1.17.0", "httpx==0.27.2",
        "phonenumbers==8.13.39", "pint==0.23", "pydantic==2.7.4", "rapidfuzz==3.9.3", "requests==2.32.3",
        "rouge-score==0.1.2", "scipy==1.13.1", "StrEnum==0.4.15", "tenacity==8.4.1", "tqdm==4.66.4", "attrs==23.2.0",
        "typing_extensions==4.12.2", "pytz==2024.1", "time-machine==2.14.2",
    ),
    size="400 MB",
)  # fmt: skip
CHECKOUT: Final = Checkout("https://github.com/apple/ToolSandbox", "tool_sandbox/common/scenario.py", _NEEDS)
PARTS: Final = ("", "user")


def toolsandbox(part: str, source: str = "") -> WorkerEnvironment:
    """The scenarios that need no network: with one request and no other word of the user, or all with a played user."""
    made = PlayedWorkerEnvironment if part else WorkerEnvironment
    name = "-".join(filter(None, ("toolsandbox", part)))
    return made(name, replace(CHECKOUT, source=source), side="toolsandbox_side", part=part)
