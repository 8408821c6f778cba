"""A gym in the layout and with the interface of UserRL's: a word is found by questions that a model answers."""

import os
from types import SimpleNamespace

from litellm import completion
from openai import AsyncOpenAI

NAME = __name__.removesuffix("gym")
if NAME == "search" and "SERPER_API_KEY" not in os.environ:
    raise ValueError("Serper API key not found.")


def get_default_config():
    return SimpleNamespace(api_key="", model_name="gpt", max_steps=20, data_source=None, data_mode="random", seed=42)


class Env:
    def __init__(self, config):
        self.config = config
        if NAME == "travel":
            self.reset()

    def reset(self):
        self.steps, self.covered_details = 0, []
        details = [{"description": detail} for detail in ("size", "colour")]
        self.current_task = {
            "id": self.config.data_source,
            "missing_details": details,
            "dimensions": ["flight", "hotel"],
        }
        if NAME == "tau" and self.config.task_split == "test":  # its user speaks first
            self.first = completion(model="gpt", custom_llm_provider="openai", messages=[]).choices[0].message.content

    async def step_async(self, action):
        self.steps += 1
        reward, done = 0.0, False
        if action.startswith("[action]"):
            client = AsyncOpenAI(api_key=self.config.api_key, base_url="")
            asked = [{"role": "user", "content": action}]
            create = client.chat.completions.create
            said = await create(model="gpt", messages=asked, temperature=0.0, max_tokens=9, timeout=10)
            text = said.choices[0].message.content
            if NAME == "intention":
                self.covered_details.append(text)
                reward = 1.0
        elif NAME == "travel":
            reward, text = {"F1": 1.0, "F2": 0.8, "H2": 0.8}.get(action.removeprefix("[answer] "), 0.0), "Noted."
        else:
            done = action == f"[answer] {self.config.data_source}"
            reward, text = float(done), "Right." if done else "Wrong."
        return {"feedback": text}, reward, done, self.steps >= self.config.max_steps, {}

    def close(self):
        pass


FunctionEnv = IntentionEnv = PersuadeEnv = SearchEnv = StoryEnv = TauEnv = TelepathyEnv = TravelEnv = Env
