"""A stand-in of hepm's own, not ACEBench: see ../../README.md."""


def agent_checker(model_output: dict, possible_answer: dict) -> dict:
    """Whether the attributes of an instance are equal."""
    (found,), (wanted,) = model_output.values(), possible_answer.values()
    return {"valid": found == wanted}
