from tau_bench.types import Action, Task

TASKS_TEST = [Task("cleo_hart_0003", [Action("paint", {"colour": "green"})], "You are Cleo. Paint it green.", [])]
