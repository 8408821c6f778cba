"""The examination of a store: `hepm doctor` compares what derives from the records with a recount."""
