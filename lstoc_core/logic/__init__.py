"""What a task means: formulas of the temporal logic TL and their finite-state machines."""

from lstoc_core.logic.formula import Formula, FormulaError, parse
from lstoc_core.logic.fsm import FSM, DeterministicTable

__all__ = ["FSM", "DeterministicTable", "Formula", "FormulaError", "parse"]
