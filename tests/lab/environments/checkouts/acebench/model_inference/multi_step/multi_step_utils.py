"""A stand-in of hepm's own, not ACEBench: see ../../../README.md."""

from typing import Any

_known: dict[str, Any] = {}


class Lamp:
    """A lamp with notes on it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.on, self.colour, self.notes = config.get("on", False), "white", dict[int, str]()
        self.secret = "not compared"

    def switch(self, on: bool) -> str:
        self.on = on
        return "on" if on else "off"

    def paint(self, colour: str) -> dict[str, str]:
        self.colour = colour
        return {"colour": colour}

    def note(self, text: str) -> int:
        self.notes[len(self.notes) + 1] = text
        return len(self.notes)


def execute_agent_func_call(
    *,
    func_call_list: list[str],
    initial_config: dict[str, Any],
    involved_classes: list[str],
    model_name: str,
    test_entry_id: str,
    language: str,
) -> tuple[Any, Any]:
    """The results of calls, and the instances by class; a text and no instances where a call raises."""
    lamp = globals().setdefault(f"{model_name}_{test_entry_id}_lamp_instance", Lamp(initial_config.get("Lamp", {})))
    try:
        return [str(eval(f"lamp.{call}", {"lamp": lamp})) for call in func_call_list], {"Lamp": lamp}
    except Exception:
        return "an error", involved_classes
