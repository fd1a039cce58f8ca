"""The parts of a run beside its explorer: discovery method, journal, checkpoint and interrupt."""
