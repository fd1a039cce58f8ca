"""What a run of the loop consists of beside its explorer: the method made for it, its journal, checkpoint, interrupt."""
