"""A fence instead of a shop. Its reward replays the right actions in the same state, as the authors' does."""

from types import SimpleNamespace

from tau_bench.envs.user import LLMUserSimulationEnv

WIKI = "You look after a fence."


def tool(name, **properties):
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


class MockRetailDomainEnv:
    def __init__(self, user_strategy, task_split, task_index):
        from tau_bench.envs.retail.tasks_test import TASKS_TEST
        from tau_bench.envs.retail.tasks_train import TASKS_TRAIN

        self.user = None if user_strategy == "human" else LLMUserSimulationEnv("", "")
        self.tools_info = [tool("paint", colour={"type": "string"}), tool("transfer_to_human_agents")]
        self.tasks = {"train": TASKS_TRAIN, "test": TASKS_TEST}[task_split]
        self.task_index = task_index
        self.task = self.tasks[task_index]
        self.actions, self.data = [], ""

    def reset(self, task_index):
        return SimpleNamespace(observation=self.user.reset(self.tasks[task_index].instruction))

    def step(self, action):
        self.actions.append(action)
        done = action.name == "transfer_to_human_agents"
        if action.name == "respond":
            said = self.user.step(action.kwargs["content"])
            done = "###STOP###" in said
        elif action.name == "paint":
            try:
                self.data, said = action.kwargs["colour"], "painted"
            except KeyError as error:
                said = f"Error: {error}"
        else:
            said = "transferred" if done else f"Unknown action {action.name}"
        return SimpleNamespace(observation=said, done=done, reward=self.calculate_reward().reward if done else 0)

    def calculate_reward(self):
        made, self.data = self.data, ""
        said = [action.kwargs["content"] for action in self.actions if action.name == "respond"]
        for action in self.task.actions:
            self.step(action)
        told = all(any(output in text for text in said) for output in self.task.outputs)
        return SimpleNamespace(reward=float(made == self.data and told))
