"""`hepm lesson`: what runs taught, as experiences, principles and notes on users."""

from __future__ import annotations

from hepm.cli.commands import Group
from hepm.cli.lesson_change import edit, retire
from hepm.cli.lesson_learn import distill, evolve
from hepm.cli.lesson_list import list_, show

lesson = Group("lesson", "What runs taught: experiences (PRIME), principles (EvolveR), notes on users.")
for _command in (list_, show, distill, evolve, edit, retire):
    lesson.takes(_command)
