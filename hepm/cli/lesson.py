"""`hepm lesson`: the group of the commands in `lesson_list`, `lesson_learn` and `lesson_change`."""

from __future__ import annotations

import click

from hepm.cli.lesson_change import edit, retire
from hepm.cli.lesson_learn import distill, evolve
from hepm.cli.lesson_list import list_, show

lesson = click.Group(
    "lesson",
    commands=[list_, show, distill, evolve, edit, retire],
    help="What runs taught: experiences (PRIME), principles (EvolveR), notes on users.",
    no_args_is_help=True,
)
