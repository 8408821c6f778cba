from tau_bench.types import Action, Task

TASKS_TRAIN = [
    Task("ada_moss_0001", [Action("paint", {"colour": "red"})], "You are Ada. Have the fence painted red.", []),
    Task("ben_reed_0002", [Action("paint", {"colour": "blue"})], "You are Ben. Have the fence painted blue.", ["40"]),
]
