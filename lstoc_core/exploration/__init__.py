"""Exploration: how trajectories are collected while the subgoals are unknown."""
