"""The command line: results go to stdout, progress and errors to stderr. `hepm.cli.commands` lists the commands."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import sys

from hepm.errors import HepmError
from hepm.text import on_one_line

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
        _flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    raise SystemExit(code)


def _flush() -> None:
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # `hepm ... >&-` closes it
        sys.stdout.flush()


def _run(arguments: list[str]) -> int:
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding lacks are escaped: no tool name may stop an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0":  # unknown width, as some terminals report it; tables would be empty
        del os.environ["COLUMNS"]
    try:
        _check_text(arguments)
        code = _exit_code([one for one in before if one != "--debug"] + arguments[len(before) :])
        _flush()
        return code
    except BrokenPipeError:
        return 0  # the reader of stdout has gone, as `head` does
    except (HepmError, OSError) as error:
        if "--debug" in before:
            import traceback

            traceback.print_exc()
        text = str(error)
        if not isinstance(error, HepmError) and error.strerror:
            text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        _complain(f"hepm: {on_one_line(text)}")
        return 1


def _exit_code(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        import hepm

        print(f"hepm {hepm.__version__}")
        return 0
    import click

    from hepm.cli.commands import app

    if "_HEPM_COMPLETE" in os.environ:  # a shell asks for completions
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
        about = ""
        if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
            hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
            about = f"{hint if isinstance(hint, str) else ' / '.join(hint)}: ".replace("'", "") if hint else ""
        text = error.message if about else error.format_message().removeprefix("Invalid value: ")
        path = error.ctx.command_path if error.ctx else "hepm"
        _complain(f"hepm: {on_one_line(about + text)}\nTry `{path} --help`.")
        return error.exit_code
    return 0


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def _check_text(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8, which no store can hold. A path may have any bytes.

    Only the commands know which arguments are paths: one that exists or contains a folder is taken for one.
    """
    for argument in arguments:
        shown = argument.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        value = argument.partition("=")[2] if argument.startswith("--") else argument
        if shown != argument and os.sep not in value and not os.path.exists(value) and not glob.glob(value):
            path = shown.partition("=")[2] if argument.startswith("--") else shown
            raise HepmError(f"'{shown}' is no text in UTF-8: write it in UTF-8, or as ./{path} if it is a path.")
