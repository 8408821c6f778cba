"""The command line: results go to stdout, progress and errors to stderr. `hepm.cli.commands` lists the commands."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from hepm.errors import HepmError
from hepm.text import on_one_line

if TYPE_CHECKING:
    import click

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process. Errors outside of hepm print as a sentence too."""
    # A stream that the caller closed is None.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
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
    debug = arguments[:1] == ["--debug"]
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding lacks are escaped: no tool name may stop an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _exit_code(arguments[debug:])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of stdout has gone, as `head` does.
        return 0
    except (HepmError, OSError) as error:
        if debug:
            import traceback

            traceback.print_exc()
        sentence = str(error)
        if isinstance(error, OSError) and not isinstance(error, HepmError) and error.strerror:
            # The system's own, without its number.
            sentence = error.strerror
            if error.filename is not None:
                sentence = f"{error.filename}: {error.strerror}"
        _complain(f"hepm: {on_one_line(sentence)}")
        return 1


def _exit_code(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        import hepm

        print(f"hepm {hepm.__version__}")
        return 0
    import click

    from hepm.cli.commands import app

    try:
        # A number is the code of an early end; where a shell asks for completions, they are printed in it.
        code = app.main(arguments, prog_name="hepm", standalone_mode=False)
    except click.Abort:  # Ctrl-C or Ctrl-D at a question
        return 130
    except SystemExit:
        # So click ends where the reader of stdout has gone, as `head` does.
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        _complain(error.format_message())
        return error.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else _command_in(arguments)
        _complain(f"hepm: {on_one_line(_misuse(error))}\nTry `{path} --help`.")
        return error.exit_code
    return code if isinstance(code, int) else 0


def _command_in(arguments: list[str]) -> str:
    """The command that is called, where click names none: of an option without its value."""
    import click

    from hepm.cli.commands import find_command

    is_group = isinstance(find_command(arguments[0]), click.Group)
    return " ".join(["hepm", *arguments[: 1 + is_group]])


def _misuse(error: click.UsageError) -> str:
    """What is wrong: an option without quotes; one that is a setting with its key."""
    import click

    from hepm.cli.config import key_of

    if isinstance(error, click.NoSuchOption):
        key = key_of(error.option_name)
        if key:
            return f"No such option {error.option_name}: it is the setting {key} of hepm.toml."
    wrong = re.sub(r"^Invalid value for (.+?): ", lambda named: named[0][18:].replace("'", ""), error.format_message())
    # click lists choices below each other.
    return wrong.removeprefix("Invalid value: ").replace("\n\t", " ")


def _complain(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr)
