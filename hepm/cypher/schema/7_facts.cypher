// Version 7: the steps in `sequence` of a run hold facts. Runs are counted again from their records on opening.
