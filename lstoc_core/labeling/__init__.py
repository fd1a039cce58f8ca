"""Which key state carries which name: the integer program, its certificate, and the function that generalizes it."""

from lstoc_core.labeling.mapping import Labeling, LabelingError, certify, label, predict, rejected_words

__all__ = ["Labeling", "LabelingError", "certify", "label", "predict", "rejected_words"]
