"""Which sequences of states complete the task: the methods that find out from labelled trajectories."""
