"""A stand-in of hepm's own, not ACEBench: see ../../../README.md."""

from model_inference.multi_step.multi_step_utils import execute_agent_func_call

__all__ = ["execute_agent_func_call"]
