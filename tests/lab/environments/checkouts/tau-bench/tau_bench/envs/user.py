"""The played user, who asks a model as soon as it is made."""

from litellm import completion


class LLMUserSimulationEnv:
    def __init__(self, model, provider):
        self.model, self.provider, self.total_cost = model, provider, 0.0
        self.reset()

    def generate_next_message(self, messages):
        res = completion(model=self.model, custom_llm_provider=self.provider, messages=messages)
        message = res.choices[0].message
        self.messages.append(message.model_dump())
        self.total_cost = res._hidden_params["response_cost"]
        return message.content

    def reset(self, instruction=None):
        wish = {"role": "system", "content": f"You play a user. {instruction}"}
        self.messages = [wish, {"role": "user", "content": "Hi! How can I help you today?"}]
        return self.generate_next_message(self.messages)

    def step(self, content):
        self.messages.append({"role": "user", "content": content})
        return self.generate_next_message(self.messages)
