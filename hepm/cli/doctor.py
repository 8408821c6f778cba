"""`hepm doctor`: is the graph what its records say?"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from hepm.cli.options import STORE, JsonOption, StoreOption, open_existing
from hepm.cli.output import print_json
from hepm.errors import StoreDamagedError
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.memory import Memory


def doctor(
    store: StoreOption = STORE,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare everything that is derived or copied with the stored records; exit 1 if something stays wrong.

    Example: `hepm doctor --repair`
    """
    with open_existing(store) as memory:
        found = _examine(memory)
        if repair and any(found.values()):
            for namespace, findings in found.items():
                if any(finding["repair"] == "rebuild" for finding in findings):
                    with suppress(StoreDamagedError):  # a record that cannot be read: the findings say so
                        memory.rebuild(namespace=namespace)
            memory.reembed()
            found = _examine(memory)
    if as_json:
        print_json({"findings": found})
    else:
        for namespace, findings in found.items():
            for finding in findings:
                print(on_one_line(f"{namespace}: {finding['what']} (repair: {finding['repair'] or 'none'})"))
        if not any(found.values()):
            print("all is well")
    if any(found.values()):
        raise typer.Exit(1)


def _examine(memory: Memory) -> dict[str, list[dict[str, str]]]:
    return {
        namespace: [{"what": f.what, "repair": f.repair} for f in memory.examine(namespace=namespace)]
        for namespace in memory.namespaces()
    }
