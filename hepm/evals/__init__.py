"""Would a memory have helped these agents? Next-tool evaluation on recorded runs."""
