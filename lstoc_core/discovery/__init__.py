"""Discovery: which sequences of states complete the task, learned from labelled trajectories."""
