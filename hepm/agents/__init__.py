"""How running agents reach memory."""
