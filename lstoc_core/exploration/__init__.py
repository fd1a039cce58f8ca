"""How trajectories are collected while the subgoals are unknown."""
