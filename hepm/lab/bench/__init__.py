"""Does an agent do better with memory? Runs of one agent on the tasks of an environment, with memory and without."""
