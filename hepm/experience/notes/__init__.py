"""What a user wants of the agent: how sessions become notes, and which lines matter now (MultiSessionCollab 4.1)."""
