"""Every command under its name."""

from __future__ import annotations

import typer

from hepm.cli.copy import copy
from hepm.cli.cypher import cypher
from hepm.cli.demo import demo
from hepm.cli.doctor import doctor
from hepm.cli.eval import eval_runs
from hepm.cli.experience import app as experience
from hepm.cli.export import export_runs, import_runs
from hepm.cli.forget import forget
from hepm.cli.ingest import ingest
from hepm.cli.library import app as library
from hepm.cli.neo4j import app as neo4j
from hepm.cli.preference import app as preference
from hepm.cli.principle import app as principle
from hepm.cli.prompt import prompt
from hepm.cli.reembed import reembed
from hepm.cli.search import search
from hepm.cli.stats import stats
from hepm.cli.suggest import suggest
from hepm.cli.view import view

app = typer.Typer(
    name="hepm",
    help="Tool memory for LLM agents: which tool worked next, in what situation, and why.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 misused, 3 no server (neo4j status), 130 interrupted. "
    "Set HEPM_STORE to name the store once.",
)
app.command()(demo)
app.command()(ingest)
app.command()(suggest)
app.command()(search)
app.command()(prompt)
app.command()(stats)
app.command("eval")(eval_runs)
app.command()(view)
app.command()(cypher)
app.command("export")(export_runs)
app.command("import")(import_runs)
app.command()(copy)
app.command()(forget)
app.command()(doctor)
app.command()(reembed)
app.add_typer(experience)
app.add_typer(principle)
app.add_typer(preference)
app.add_typer(library)
app.add_typer(neo4j)


def _print_version(wanted: bool) -> None:
    if wanted:
        import hepm

        print(f"hepm {hepm.__version__}")
        raise typer.Exit


@app.callback()
def root(
    # Here for the help alone: main() takes it wherever it stands.
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_print_version, help="Print the version."),
) -> None:
    """Tool memory for LLM agents."""
