"""The command line: results go to stdout, progress and errors to stderr. `hepm.cli.commands` lists the commands."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

from hepm.errors import HepmError
from hepm.text import on_one_line

if TYPE_CHECKING:
    import click

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process. Errors outside of hepm print as a sentence too."""
    # The commands are imported inside, so that Ctrl-C is handled while Python still reads them.
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    try:
        # Python flushes at its very end too, and would complain if the reader is gone.
        sys.stdout.flush()
    except OSError:
        # Nothing is left to flush into the pipe that broke.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    raise SystemExit(code)


def _run(arguments: list[str]) -> int:
    before = arguments
    if "--" in arguments:
        # What stands behind it is no option, even if it reads --debug.
        before = arguments[: arguments.index("--")]
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding lacks are escaped: no tool name may stop an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = [argument for argument in before if argument != "--debug"]
        code = _exit_code(options + arguments[len(before) :])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of stdout has gone, as `head` does.
        return 0
    except (HepmError, OSError) as error:
        if "--debug" in before:
            import traceback

            traceback.print_exc()
        _complain(f"hepm: {on_one_line(_sentence(error))}")
        return 1


def _sentence(error: HepmError | OSError) -> str:
    """What to say of an error; of the system's without its number."""
    if isinstance(error, HepmError) or not error.strerror:
        return str(error)
    if error.filename is None:
        return error.strerror
    return f"{error.filename}: {error.strerror}"


def _exit_code(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        import hepm

        print(f"hepm {hepm.__version__}")
        return 0
    import click

    from hepm.cli.commands import app

    # A shell asks for completions.
    if "_HEPM_COMPLETE" in os.environ:
        app.main(prog_name="hepm")
    try:
        with app.make_context("hepm", arguments) as context:
            app.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:  # Ctrl-C or Ctrl-D at a question
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        _complain(error.format_message())
        return error.exit_code
    except click.UsageError as error:
        path = "hepm"
        if error.ctx:
            path = error.ctx.command_path
        _complain(f"hepm: {on_one_line(_misuse(error))}\nTry `{path} --help`.")
        return error.exit_code
    return 0


def _misuse(error: click.UsageError) -> str:
    """What to say of a misuse: the option, without quotes, and what is wrong with it."""
    import click

    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        hint = error.param_hint
        if not hint and error.param and error.ctx:
            hint = error.param.get_error_hint(error.ctx)
        if hint:
            names = hint if isinstance(hint, str) else " / ".join(hint)
            return f"{names}: ".replace("'", "") + error.message
    # click lists choices below each other.
    return error.format_message().removeprefix("Invalid value: ").replace("\n\t", " ")


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)
