"""Sessions of simulated users with an agent that may remember what they prefer (MultiSessionCollab)."""
