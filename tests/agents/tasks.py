"""A small world of users and tasks for scripted agents, like the `mock` domain of tau2-bench."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class TaskBoard:
    """Users and their tasks. Its methods are the agent's tools; what they raise, the model reads."""

    users: dict[str, str] = field(default_factory=lambda: {"user_1": "Ada", "user_2": "Ben", "user_3": "Cleo"})
    tasks: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    transferred: bool = False

    @property
    def tools(self) -> list[object]:
        return [self.create_task, self.update_task_status, self.get_users, self.transfer_to_human_agents]

    def create_task(self, user_id: str, title: str, description: str = "") -> dict[str, str]:
        """Create a task for a user."""
        self._check_user(user_id)
        task = {"task_id": f"task_{len(self.tasks) + 1}", "user_id": user_id, "title": title, "status": "pending"}
        self.tasks[task["task_id"]] = task | ({"description": description} if description else {})
        return self.tasks[task["task_id"]]

    def update_task_status(self, task_id: str, status: Literal["pending", "completed"]) -> dict[str, str]:
        """Set the status of a task."""
        if task_id not in self.tasks:
            raise ValueError(f"Task {task_id} not found")
        self.tasks[task_id]["status"] = status
        return self.tasks[task_id]

    def get_users(self) -> dict[str, str]:
        """Names of all users by their ids."""
        return self.users

    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the conversation over to a human, if no other tool can help."""
        self.transferred = bool(summary)
        return "Transfer successful"

    def _check_user(self, user_id: str) -> None:
        if user_id not in self.users:
            raise ValueError(f"User {user_id} not found")
