"""The command line; `hepm.cli.commands` has the table of its commands.

A command parses, makes one call on `Memory` and prints. Results go to stdout, progress and complaints to stderr.
Exit codes: 0 done, 1 failed (the sentence says why), 2 misused, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import sys
from typing import TYPE_CHECKING, Any

from hepm.errors import HepmError

if TYPE_CHECKING:
    import click

    from hepm.cli.commands import app

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name == "app":
        from hepm.cli.commands import app

        return app
    raise AttributeError(f"module 'hepm.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line and end the process; what went wrong outside of hepm prints as a sentence."""
    # The commands are imported inside, so that Ctrl-C meets us while Python still reads them.
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    _write_out()
    raise SystemExit(code)


def _run(arguments: list[str]) -> int:
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in before
    _prepare_terminal()
    try:
        _check_text(arguments)
        code = _exit_code([one for one in before if one != "--debug"] + arguments[len(before) :])
        if _stdout_is_open():
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; that is no failure of ours.
        return 0
    except (HepmError, OSError) as error:
        if debug:
            import traceback

            traceback.print_exc()
        _complain(f"hepm: {_sentence(error)}")
        return 1


def _exit_code(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        import hepm

        print(f"hepm {hepm.__version__}")
        return 0
    import click

    from hepm.cli.commands import app

    if "_HEPM_COMPLETE" in os.environ:  # a shell asks how a word may end
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
        _complain(f"hepm: {_misuse(error)}")
        return error.exit_code
    return 0


def _misuse(error: click.UsageError) -> str:
    """The message about wrong arguments: the option, the error, and where to find help."""
    from click import BadParameter, MissingParameter

    from hepm.text import on_one_line

    about = ""
    if isinstance(error, BadParameter) and not isinstance(error, MissingParameter):
        hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
        about = f"{hint if isinstance(hint, str) else ' / '.join(hint)}: ".replace("'", "") if hint else ""
    text = error.message if about else error.format_message().removeprefix("Invalid value: ")
    path = error.ctx.command_path if error.ctx else "hepm"
    return f"{on_one_line(about + text)}\nTry `{path} --help`."


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def _prepare_terminal() -> None:
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding lacks is written as an escape: no tool's name may stop an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0":  # not known, as some terminals say it; tables would be left empty
        del os.environ["COLUMNS"]


def _sentence(error: HepmError | OSError) -> str:
    from hepm.text import on_one_line

    if isinstance(error, HepmError) or not error.strerror:
        return on_one_line(str(error))
    about = "" if error.filename is None else f"{error.filename}: "
    return on_one_line(f"{about}{error.strerror}")


def _check_text(arguments: list[str]) -> None:
    """Refuse words that are no UTF-8, which no store can hold; a path may have any bytes.

    Which words are paths only the commands know: one that is there, or that has a folder in it, is taken for one.
    """
    for argument in arguments:
        if argument.isascii() or _is_text(argument):
            continue
        value = argument.partition("=")[2] if argument.startswith("--") else argument
        if os.sep not in value and not os.path.exists(value) and not glob.glob(value):
            raise HepmError(
                f"'{_shown(argument)}' is no text in UTF-8: write it in UTF-8, or as ./{_shown(value)} if it is a path."
            )


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(argument: str) -> str:
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _write_out() -> None:
    # Python does so at its very end, and would complain where nobody takes what is left.
    if not _stdout_is_open():
        return
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _stdout_is_open() -> bool:
    return sys.stdout is not None  # pyright: ignore[reportUnnecessaryComparison]  # `hepm ... >&-` closes it
